// Draws attention probabilities: a row for each token, a column for each projected row.

const ROW_HEIGHT = 20;
const NARROWEST = 4, WIDEST = 28; // of a column
const EDGE = 4; // around a cell that is scrolled into view
const LABELLED = 14; // width that a column label takes
const LONGEST_LABEL = 110;
const FONT = "12px system-ui, sans-serif";
const RAMPS = {
  light: [[243, 246, 250], [102, 155, 217], [9, 32, 92]],
  dark: [[24, 30, 39], [54, 112, 190], [226, 240, 255]],
};

// "▁" is how sentencepiece writes the space before a word.
export const visible = (token) => token.replaceAll(" ", "▁").replaceAll("\n", "⏎");

export const isDark = matchMedia("(prefers-color-scheme: dark)");

// Red, green and blue for a share of the largest value. The scale is that of the square root, so that small probabilities
// differ visibly; the legend has the same.
export function ramp() {
  const stops = RAMPS[isDark.matches ? "dark" : "light"];
  return (share) => between(stops, Math.sqrt(Math.min(1, Math.max(0, share))));
}

// The colour at a place, from 0 to 1, between the first and the last of several.
export function between(stops, share) {
  const place = share * (stops.length - 1);
  const first = Math.min(stops.length - 2, Math.floor(place));
  return stops[first].map((value, i) => Math.round(value + (stops[first + 1][i] - value) * (place - first)));
}

export const css = (colour) => `rgb(${colour.join(" ")})`;

// A canvas of this size in CSS pixels, sharp on dense screens; returns its context.
function prepared(canvas, width, height) {
  const density = Math.min(2, devicePixelRatio || 1);
  canvas.width = Math.round(width * density);
  canvas.height = Math.round(height * density);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(density, density);
  context.font = FONT;
  context.textBaseline = "middle";
  context.fillStyle = getComputedStyle(canvas).color;
  return context;
}

function shortened(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let end = text.length;
  while (end > 1 && context.measureText(`${text.slice(0, end)}…`).width > width) end--;
  return `${text.slice(0, end)}…`;
}

// colour(share): of a place from 0 to 1.
export function drawLegend(canvas, colour) {
  const legend = prepared(canvas, 160, 12);
  for (let x = 0; x < 160; x++) {
    legend.fillStyle = css(colour(x / 159));
    legend.fillRect(x, 0, 1, 12);
  }
}

// What a column of P is, in words.
export function columnName({ tokens, window, dense }, column) {
  if (dense) return `token ${column + 1} “${visible(tokens[column])}”`;
  if (window === null) return `projected row ${column + 1}`;
  const start = column * window, end = Math.min(tokens.length, start + window);
  const numbers = end - start === 1 ? `token ${end}` : `tokens ${start + 1} to ${end}`;
  return `projected row ${column + 1} (${numbers} “${visible(tokens.slice(start, end).join(""))}”)`;
}

export class HeatMap {
  // frame: the grid of canvases; legend: canvas; say(text): shows what the chosen cell is; number(value): writes a
  // probability; pick(token, column): is called for a cell that is clicked, or chosen with Enter.
  constructor(frame, legend, { say, number, pick = () => {} }) {
    this.frame = frame;
    this.legend = legend;
    this.say = say;
    this.number = number;
    this.pick = pick;
    this.columns = frame.querySelector(".columns");
    this.rows = frame.querySelector(".rows");
    this.cells = frame.querySelector(".cells canvas");
    this.mark = frame.querySelector(".mark");
    this.data = null;
    this.cells.addEventListener("pointermove", (event) => this.chooseAt(event));
    this.cells.addEventListener("pointerdown", (event) => this.chooseAt(event));
    this.cells.addEventListener("click", () => this.pickChosen());
    this.cells.addEventListener("keydown", (event) => this.chooseByKey(event));
    addEventListener("resize", () => this.draw());
    isDark.addEventListener("change", () => this.draw());
  }

  // data: tokens: names of all; first: the token of the first row; weights: rows of probabilities; largest of all
  // tokens; window: tokens that a column is made of, null if it is made of all; dense: whether columns are tokens.
  show(data) {
    this.data = data;
    this.chosen = null;
    this.mark.hidden = true;
    this.frame.scrollTo(0, 0);
    this.cells.ariaLabel =
      `Heat map of ${data.weights.length} tokens and ${data.weights[0].length} ${data.dense ? "tokens" : "projected rows"}; ` +
      "the arrow keys choose a cell, whose value is below the map";
    this.draw();
  }

  draw() {
    if (this.data === null) return;
    const { weights, largest, tokens, first } = this.data;
    const count = weights[0].length;
    const colour = ramp();
    const labels = weights.map((_, row) => visible(tokens[first + row]));
    const measure = this.cells.getContext("2d");
    measure.font = FONT;
    const widest = Math.max(...labels.map((label) => measure.measureText(label).width));
    const labelWidth = Math.ceil(Math.min(LONGEST_LABEL, widest)) + 12;
    const room = Math.floor((this.frame.parentElement.clientWidth - labelWidth - 2) / count);
    this.width = Math.min(WIDEST, Math.max(NARROWEST, room));

    const cells = prepared(this.cells, count * this.width, weights.length * ROW_HEIGHT);
    const gap = this.width > 2 * NARROWEST ? 1 : 0;
    weights.forEach((values, row) => values.forEach((value, column) => {
      cells.fillStyle = css(colour(value / largest));
      cells.fillRect(column * this.width, row * ROW_HEIGHT, this.width - gap, ROW_HEIGHT - 1);
    }));

    const rows = prepared(this.rows, labelWidth, weights.length * ROW_HEIGHT);
    rows.textAlign = "right";
    labels.forEach((label, row) =>
      rows.fillText(shortened(rows, label, labelWidth - 12), labelWidth - 6, (row + 0.5) * ROW_HEIGHT));

    this.drawColumnLabels(count);
    drawLegend(this.legend, colour);
    if (this.chosen) this.choose(...this.chosen);
  }

  drawColumnLabels(count) {
    const every = Math.ceil(LABELLED / this.width);
    const names = Array.from({ length: Math.ceil(count / every) }, (_, i) => this.columnLabel(i * every));
    const context = prepared(this.columns, 1, 1);
    const height = Math.ceil(Math.min(LONGEST_LABEL, Math.max(...names.map((x) => context.measureText(x).width)))) + 12;
    const drawn = prepared(this.columns, count * this.width, height);
    names.forEach((name, i) => {
      drawn.save();
      drawn.translate(Math.max(LABELLED / 2, (i * every + 0.5) * this.width), height - 6);
      drawn.rotate(-Math.PI / 2);
      drawn.fillText(shortened(drawn, name, height - 12), 0, 0);
      drawn.restore();
    });
  }

  // The tokens that a projected row is made of, or its number if it is made of all.
  columnLabel(column) {
    const { tokens, window } = this.data;
    if (window === null) return String(column + 1);
    return visible(tokens.slice(column * window, (column + 1) * window).join(""));
  }

  describe(row, column) {
    const { tokens, first, weights } = this.data;
    const from = `token ${first + row + 1} “${visible(tokens[first + row])}”`;
    return `${from} to ${columnName(this.data, column)}: ${this.number(weights[row][column])}`;
  }

  choose(row, column) {
    const { weights } = this.data;
    row = Math.min(weights.length - 1, Math.max(0, row));
    column = Math.min(weights[0].length - 1, Math.max(0, column));
    this.chosen = [row, column];
    this.mark.hidden = false;
    this.mark.style.left = `${column * this.width}px`;
    this.mark.style.top = `${row * ROW_HEIGHT}px`;
    this.mark.style.width = `${this.width}px`;
    this.mark.style.height = `${ROW_HEIGHT - 1}px`;
    this.say(this.describe(row, column));
  }

  // Scrolls the chosen cell into the frame, beside the labels; the page stays.
  reveal() {
    const { mark, frame } = this;
    const wide = frame.clientWidth - this.rows.offsetWidth, high = frame.clientHeight - this.columns.offsetHeight;
    const within = (start, size, scrolled, room) => Math.max(start + size + EDGE - room, Math.min(start - EDGE, scrolled));
    frame.scrollTo(
      within(mark.offsetLeft, mark.offsetWidth, frame.scrollLeft, wide),
      within(mark.offsetTop, mark.offsetHeight, frame.scrollTop, high),
    );
  }

  chooseAt(event) {
    const box = this.cells.getBoundingClientRect();
    this.choose(Math.floor((event.clientY - box.top) / ROW_HEIGHT), Math.floor((event.clientX - box.left) / this.width));
  }

  pickChosen() {
    if (this.chosen) this.pick(this.data.first + this.chosen[0], this.chosen[1]);
  }

  chooseByKey(event) {
    if (event.key === "Enter") this.pickChosen();
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    const [row, column] = this.chosen ?? [-step[0], -step[1]];
    this.choose(row + step[0], column + step[1]);
    this.reveal();
  }
}

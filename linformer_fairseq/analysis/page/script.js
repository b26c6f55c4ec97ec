// Shows the result that is in the page. Texts are only ever set as textContent, never as HTML.

const el = (id) => document.getElementById(id);
const data = JSON.parse(el("data").textContent);
const { tokens, encoder } = data;
const dense = encoder.is_dense;

const PAGE = 64; // tokens of the heat map at a time
const LISTED = 10; // rows that get the most attention
const PARTS = 8; // tokens that are named of the row that is chosen
const FEW_PARTS = 3; // of the others
const THUMBNAIL = 64; // cells along a side
const SIDES = [[4, "7rem"], [8, "5rem"], [Infinity, "3.4rem"]]; // of thumbnails, by the most heads
const SIGNED = {
  light: [[33, 102, 172], [255, 255, 255], [188, 40, 46]],
  dark: [[103, 175, 230], [27, 33, 43], [246, 130, 100]],
};

const count = (value) => value.toLocaleString("en");
const named = (token) => `token ${count(token + 1)} “${visible(tokens[token])}”`;
const columns = dense ? "tokens" : "projected rows";

// No more digits than 8 bits have.
function percent(share) {
  if (share < 0.001) return "< 0.1 %";
  return `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
}

const weight = (value) => value.toFixed(Math.abs(value) < 0.1 ? 3 : 2).replace("-", "−");

function bytes(text) {
  const letters = atob(text), found = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) found[i] = letters.charCodeAt(i);
  return found;
}

const headOf = (layer, head) => data.attention[layer][head];

// P of a layer and head: an array for each token.
function probabilities(layer, head) {
  const { rows, largest, values } = headOf(layer, head);
  const all = Float32Array.from(bytes(values), (value) => largest * (value / 255) ** 2);
  return tokens.map((_, token) => all.subarray(token * rows, (token + 1) * rows));
}

// E of a layer and head, an array for each row; null for dense attention.
function weights(layer, head) {
  const { projection } = headOf(layer, head);
  if (projection === null) return null;
  const { rows, window, largest, values } = data.projections[projection];
  const all = Float32Array.from(new Int8Array(bytes(values).buffer), (value) => (largest * value) / 127);
  const matrix = Array.from({ length: rows }, (_, row) => all.subarray(row * tokens.length, (row + 1) * tokens.length));
  return { matrix, window, largest };
}

// A group of which one is chosen, by a click or with the keys of radio buttons.
class Choice {
  // across: how many are in a line; pick(i): is called for the one that is chosen.
  constructor(group, across, pick) {
    this.group = group;
    this.across = across;
    this.pick = pick;
    this.buttons = [];
    group.addEventListener("keydown", (event) => this.move(event));
  }

  fill(buttons) {
    this.buttons = buttons;
    buttons.forEach((button, i) => {
      button.type = "button";
      button.setAttribute("role", "radio");
      button.addEventListener("click", () => this.pick(i));
    });
  }

  check(chosen) {
    this.buttons.forEach((button, i) => {
      button.setAttribute("aria-checked", String(i === chosen));
      button.tabIndex = i === chosen ? 0 : -1;
    });
    this.chosen = chosen;
  }

  move(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.across, ArrowDown: this.across };
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    const next = this.chosen + step;
    if (next < 0 || next >= this.buttons.length) return;
    this.pick(next);
    this.buttons[next].focus();
  }
}

const at = { layer: 0, head: 0, token: Math.min(1, tokens.length - 1), row: 0 };
let p, e; // of the layer and head
let listed; // rows
let first; // token of the heat map

const heads = new Choice(el("heads"), encoder.heads, (i) => {
  choose({ layer: Math.floor(i / encoder.heads), head: i % encoder.heads });
});
const texts = new Choice(el("tokens"), 1, (token) => choose({ token }));
const rows = new Choice(el("rows"), 1, (i) => choose({ row: listed[i] }));
const map = new HeatMap(el("heat-map"), el("legend"), {
  say: (text) => { el("cell").textContent = text; },
  number: percent,
  pick: (token, row) => choose({ token, row }),
});

// Changes what is chosen. Where no row is, it is the one that the token attends to most.
function choose(change) {
  const before = { ...at };
  Object.assign(at, change);
  const moved = p === undefined || at.layer !== before.layer || at.head !== before.head;
  if (moved) [p, e] = [probabilities(at.layer, at.head), weights(at.layer, at.head)];
  if (change.row === undefined) at.row = p[at.token].indexOf(Math.max(...p[at.token]));
  heads.check(at.layer * encoder.heads + at.head);
  texts.check(at.token);
  showTokens();
  showRows(moved || at.token !== before.token);
  const page = Math.floor(at.token / PAGE) * PAGE;
  if (moved || page !== first) showMap(page);
  map.choose(at.token - first, at.row);
  map.reveal();
  if (e) showProjection();
}

const columnsOf = () => ({ tokens, window: e ? e.window : 1, dense });

function showTokens() {
  const shares = dense ? p[at.token] : e.matrix[at.row];
  const largest = shares.reduce((most, value) => Math.max(most, Math.abs(value)), 0) || 1;
  const colour = dense ? ramp() : (share) => between(SIGNED[isDark.matches ? "dark" : "light"], (1 + share) / 2);
  texts.buttons.forEach((button, token) => {
    const made = colour(shares[token] / largest);
    button.style.background = css(made);
    button.style.color = isLight(made) ? "#10151d" : "#ffffff";
    button.title = `token ${count(token + 1)}: ${dense ? percent(shares[token]) : `weight ${weight(shares[token])}`}`;
  });
  el("tokens-about").textContent = dense
    ? "Choose one by a click. Colours: how much it attends to each."
    : `Choose one by a click. Colours: the weight of each token in projected row ${count(at.row + 1)}, which is chosen `
      + "below (red: positive, blue: negative).";
}

// Relative luminance, as in the Web Content Accessibility Guidelines; above it, black text has more contrast.
function isLight(colour) {
  const [red, green, blue] = colour.map((value) => (value / 255) ** 2.2);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18;
}

function showRows(changed) {
  const shares = p[at.token];
  if (changed || !listed.includes(at.row)) {
    listed = Array.from(shares.keys()).sort((a, b) => shares[b] - shares[a]).slice(0, LISTED);
    const most = listed.reduce((sum, row) => sum + shares[row], 0);
    const others = shares.length - listed.length;
    el("rest").textContent = others ? `The other ${count(others)}: ${percent(Math.max(0, 1 - most))} together.` : "";
    if (!listed.includes(at.row)) listed.push(at.row);
    rows.fill(listed.map((row) => rowButton(row, shares[row], shares[listed[0]])));
    el("rows").replaceChildren(...rows.buttons);
  }
  rows.check(listed.indexOf(at.row));
  el("rows-title").textContent = `What ${named(at.token)} attends to in layer ${at.layer + 1}, head ${at.head + 1}`;
  el("rows-about").textContent = `The ${columns} with the largest probabilities.`
    + (dense ? "" : " Choose one to see in the text above what it is made of.");
  el("made-of").textContent = dense ? "" : `Projected row ${count(at.row + 1)} is made of ${parts(at.row, PARTS).join(", ")}.`;
}

function rowButton(row, share, most) {
  const button = document.createElement("button");
  const value = document.createElement("span"), bar = document.createElement("span"), name = document.createElement("span");
  [value.className, bar.className, name.className] = ["value", "bar", "name"];
  value.textContent = percent(share);
  bar.style.width = `${(100 * share) / most}%`;
  name.textContent = columnName(columnsOf(), row);
  if (e && e.window === null) name.textContent += `: ${parts(row, FEW_PARTS).slice(0, FEW_PARTS).join(", ")}, …`;
  button.append(value, bar, name);
  return button;
}

// Tokens of a projected row with their weights, the largest first.
function parts(row, most) {
  const shares = e.matrix[row];
  const made = Array.from(shares.keys()).filter((token) => shares[token] !== 0);
  const shown = made.sort((a, b) => Math.abs(shares[b]) - Math.abs(shares[a])).slice(0, most);
  const texts = shown.map((token) => `${weight(shares[token])} “${visible(tokens[token])}” (${count(token + 1)})`);
  return made.length > most ? [...texts, `${count(made.length - most)} more with smaller weights`] : texts;
}

function showMap(page) {
  first = page;
  const { largest } = headOf(at.layer, at.head);
  const shown = p.slice(first, first + PAGE);
  el("map-title").textContent = `${data.matrix} of layer ${at.layer + 1}, head ${at.head + 1}`;
  el("range").textContent = `Tokens ${count(first + 1)} to ${count(first + shown.length)} of ${count(tokens.length)}`;
  el("pages").hidden = tokens.length <= PAGE;
  el("previous").disabled = first === 0;
  el("next").disabled = first + PAGE >= tokens.length;
  el("largest").textContent = percent(largest);
  el("cell").textContent = "";
  map.show({ ...columnsOf(), first, weights: shown, largest });
}

function showProjection() {
  el("projection").hidden = false;
  const { matrix, largest } = e, canvas = el("projection-map");
  const stops = SIGNED[isDark.matches ? "dark" : "light"];
  const colour = (share) => between(stops, share);
  canvas.width = tokens.length;
  canvas.height = matrix.length;
  canvas.style.aspectRatio = `${tokens.length} / ${matrix.length}`;
  canvas.style.imageRendering = canvas.clientWidth < tokens.length ? "auto" : "pixelated";
  paint(canvas, (row, token) => colour((1 + matrix[row][token] / (largest || 1)) / 2));
  canvas.ariaLabel = `E with ${matrix.length} projected rows and ${tokens.length} tokens; the arrow keys choose a row`;
  const mark = el("projection-frame").querySelector(".mark");
  mark.style.cssText = `left: 0; width: 100%; top: ${(100 * at.row) / matrix.length}%; height: ${100 / matrix.length}%`;
  el("projection-title").textContent = `E of layer ${at.layer + 1}, head ${at.head + 1}`;
  const apart = ["none", "headwise"].includes(encoder.sharing) && !encoder.projection.endsWith("pool");
  el("projection-about").textContent = `${count(matrix.length)} projected rows (lines) of ${count(tokens.length)} tokens `
    + `(columns). Shown: ${data.shown}. A click chooses a row.`
    + (apart ? " These are the rows of the keys; those of the values are made by F, which is not shown." : "");
  el("lowest").textContent = weight(-largest);
  el("highest").textContent = weight(largest);
  drawLegend(el("projection-legend"), colour);
}

// Gives each pixel of a canvas the colour of its line and place.
function paint(canvas, colour) {
  const { width, height } = canvas, context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  for (let y = 0, i = 0; y < height; y++) {
    for (let x = 0; x < width; x++, i += 4) {
      image.data.set(colour(y, x), i);
      image.data[i + 3] = 255;
    }
  }
  context.putImageData(image, 0, 0);
}

// P of a layer and head in small: each cell is the largest value of its part.
function drawThumbnail(canvas, layer, head) {
  const { rows: across, values } = headOf(layer, head);
  const found = bytes(values), colour = ramp();
  const down = canvas.height = Math.min(THUMBNAIL, tokens.length);
  const wide = canvas.width = Math.min(THUMBNAIL, across);
  const cells = new Uint8Array(down * wide);
  for (let token = 0, i = 0; token < tokens.length; token++) {
    const line = Math.floor((token * down) / tokens.length) * wide;
    for (let row = 0; row < across; row++, i++) {
      const cell = line + Math.floor((row * wide) / across);
      if (found[i] > cells[cell]) cells[cell] = found[i];
    }
  }
  const colours = Array.from({ length: 256 }, (_, value) => colour((value / 255) ** 2));
  paint(canvas, (y, x) => colours[cells[y * wide + x]]);
}

function drawThumbnails() {
  heads.buttons.forEach((button, i) => {
    drawThumbnail(button.firstChild, Math.floor(i / encoder.heads), i % encoder.heads);
  });
}

function label(text) {
  const made = document.createElement("span");
  made.textContent = text;
  return made;
}

function presentHeads() {
  const side = SIDES.find(([most]) => encoder.heads <= most)[1];
  el("heads").style.gridTemplateColumns = `max-content repeat(${encoder.heads}, minmax(1.5rem, ${side}))`;
  heads.fill(Array.from({ length: encoder.layers * encoder.heads }, (_, i) => {
    const button = document.createElement("button");
    button.ariaLabel = button.title = `layer ${Math.floor(i / encoder.heads) + 1}, head ${(i % encoder.heads) + 1}`;
    button.append(document.createElement("canvas"));
    return button;
  }));
  el("heads").append(label(""), ...Array.from({ length: encoder.heads }, (_, head) => label(head + 1)));
  for (let layer = 0; layer < encoder.layers; layer++) {
    el("heads").append(label(layer + 1), ...heads.buttons.slice(layer * encoder.heads, (layer + 1) * encoder.heads));
  }
}

function present() {
  el("name").textContent = data.settings.model;
  document.title = `${data.settings.model} – attention`;
  const facts = [encoder.kind, `${count(tokens.length)} tokens`, `n = ${count(encoder.max_positions)}`];
  facts.push(`${encoder.layers} layers of ${encoder.heads} heads`);
  if (!dense) facts.push(`projection ${encoder.projection}`, `sharing ${encoder.sharing}`);
  el("facts").textContent = facts.join(" · ");
  el("origin").textContent = `${data.origin} Values are stored with 8 bits.`;
  presentHeads();
  texts.fill(tokens.map((token) => {
    const button = document.createElement("button");
    button.textContent = visible(token);
    return button;
  }));
  el("tokens").append(...texts.buttons);
}

function chooseRowAt(event) {
  const box = el("projection-map").getBoundingClientRect();
  const row = Math.floor(((event.clientY - box.top) / box.height) * e.matrix.length);
  choose({ row: Math.min(e.matrix.length - 1, Math.max(0, row)) });
}

function chooseRowByKey(event) {
  const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  if (!step) return;
  event.preventDefault();
  choose({ row: Math.min(e.matrix.length - 1, Math.max(0, at.row + step)) });
}

present();
drawThumbnails();
choose({});
el("previous").addEventListener("click", () => showMap(first - PAGE));
el("next").addEventListener("click", () => showMap(first + PAGE));
el("projection-map").addEventListener("click", chooseRowAt);
el("projection-map").addEventListener("keydown", chooseRowByKey);
isDark.addEventListener("change", () => { drawThumbnails(); choose({ row: at.row }); });

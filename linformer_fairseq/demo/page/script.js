// Connects the page with the server. Texts are only ever set as textContent or value, never as HTML.

import { HeatMap } from "/heat_map.js";

const el = (id) => document.getElementById(id);
const LONG = {
  head: "keep the beginning",
  tail: "keep the end",
  "head+tail": "keep beginning and end",
  windows: "average over windows",
};
const CONTEXT = 60; // characters
const number = (value) => value.toLocaleString("en");
const percent = (value) => `${(100 * value).toFixed(1)} %`;

const CHANGED = "The text or the options have changed since this answer.";
const BYTES = /^ ?(?:\\x[0-9a-f]{2})+$/; // a token of bytes that are no whole character

let model;
let attended; // the question of the attention map, for its other layers, heads and tokens
let page = 0; // the first token of the attention map
const answered = {}; // by section: the question whose answer it shows, which the fields may no longer have
const questions = {
  "fill-mask": () => ({ text: el("text").value, top: el("top").valueAsNumber }),
  classify: () => ({ ...texts(), long: el("long").value }),
  attention: () => ({ ...texts(), long: el("long").value }),
};

function texts() {
  const lines = el("lines").checked;
  return { text: el("text").value, second: lines ? "" : el("second").value, lines };
}

async function get(path, value) {
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(value) };
  let reply;
  try {
    reply = await fetch(path, value === undefined ? {} : options);
  } catch {
    throw new Error("The server does not reply; `linformer demo` may have ended.");
  }
  const found = await reply.json().catch(() => ({ error: `The server replied with status ${reply.status}.` }));
  if (!reply.ok) throw new Error(found.error);
  return found;
}

// Runs one question of a section at a time, and shows its state and errors. The last question wins. more(): what else the
// server is asked for.
function asker(section, show, hide, more = () => ({})) {
  let latest = 0;
  return async (question) => {
    const mine = ++latest;
    el(`${section}-status`).textContent = "Computing…";
    el(`${section}-error`).textContent = "";
    try {
      const found = await get(`/api/${section}`, { ...question, ...more() });
      if (mine !== latest) return;
      el(`${section}-status`).textContent = show(found, question);
      answered[section] = question;
    } catch (error) {
      if (mine !== latest) return;
      hide();
      delete answered[section];
      el(`${section}-status`).textContent = "";
      el(`${section}-error`).textContent = error.message;
    }
    compare();
  };
}

// Says of each answer whether the fields still have its question.
function compare() {
  for (const [section, question] of Object.entries(questions)) {
    const was = answered[section];
    const said = was && JSON.stringify(was) !== JSON.stringify(question()) ? CHANGED : "";
    const note = el(`${section}-changed`);
    if (note.textContent !== said) note.textContent = said; // screen readers say what is written, also if it is the same
  }
}

// Replaces the rows of a table; a cell is [text, class] or a node. A text may be written from right to left.
function fill(table, rows) {
  table.tBodies[0].replaceChildren(...rows.map((cells) => {
    const row = document.createElement("tr");
    row.append(...cells.map((cell) => {
      const made = document.createElement("td");
      made.dir = "auto";
      if (cell instanceof Node) made.append(cell);
      else [made.textContent, made.className] = [cell[0], cell[1] ?? ""];
      return made;
    }));
    return row;
  }));
  table.hidden = false;
}

function probability(value) {
  const made = document.createElement("span");
  made.className = "share";
  made.textContent = percent(value);
  const bar = document.createElement("span");
  bar.className = "bar";
  bar.style.width = `${8 * value}rem`;
  made.append(bar);
  return made;
}

const cut = (how) => `The text has more than ${number(model.longest)} tokens: ${how}.`;

const fillMask = asker(
  "fill-mask",
  ({ candidates }, { text }) => {
    fill(el("candidates"), candidates.map((one) => {
      const isText = !BYTES.test(one.token);
      return [
        isText ? [one.token, "token"] : [bytesOf(one.token), "quiet"],
        probability(one.probability),
        [isText ? inContext(text, one.token) : "", "wide"],
      ];
    }));
    return "";
  },
  () => { el("candidates").hidden = true; },
);

// "byte D9 of a character" for \xd9, as the server writes it.
function bytesOf(token) {
  const bytes = token.trim().split("\\x").slice(1);
  return `${bytes.length > 1 ? "bytes" : "byte"} ${bytes.join(" ").toUpperCase()} of a character`;
}

// The token in place of the mask, with some of the text around it.
function inContext(text, token) {
  const [before, after] = text.split(model.mask).map((part) => Array.from(part));
  const start = before.slice(-CONTEXT).join("").trimEnd(), end = after.slice(0, CONTEXT).join("");
  return (before.length > CONTEXT ? "…" : "") + (start + token).trimStart() + end + (after.length > CONTEXT ? "…" : "");
}

const classify = asker(
  "classify",
  ({ texts, unlike }, { lines, long }) => {
    const said = lines ? showLines(texts, long) : showClasses(texts[0], long);
    return unlike ? `${said} ${unlike}.` : said;
  },
  () => { el("classes").hidden = el("lines-table").hidden = true; },
);

function showClasses(found, how) {
  el("lines-table").hidden = true;
  if (found.error) throw new Error(found.error);
  const order = model.labels.map((_, i) => i).sort((a, b) => found.probabilities[b] - found.probabilities[a]);
  fill(el("classes"), order.map((i) => [[model.labels[i], "token"], probability(found.probabilities[i])]));
  if (!found.long) return "";
  return cut(found.windows > 1 ? `averaged over ${found.windows} windows` : `truncated (${LONG[how]})`);
}

function showLines(texts, how) {
  el("classes").hidden = true;
  fill(el("lines-table"), texts.map((one) => [
    [one.id, "number"],
    one.error ? [one.error, "error"] : [one.label, "token"],
    one.error ? [""] : [percent(one.probability), "number"],
    [one.text, "excerpt"],
  ]));
  const counts = [`${number(texts.length)} lines`];
  for (const label of model.labels) {
    const count = texts.filter((one) => !one.error && one.label === label).length;
    if (count) counts.push(`${label}: ${number(count)}`);
  }
  const failed = texts.filter((one) => one.error).length;
  if (failed) counts.push(`without a class: ${number(failed)}`);
  const long = texts.filter((one) => one.long).length;
  if (long) counts.push(`longer than ${number(model.longest)} tokens (${LONG[how]}): ${number(long)}`);
  return `${counts.join("; ")}.`;
}

const showMap = new HeatMap(el("heat-map"), el("legend"), {
  say: (text) => { el("cell").textContent = text; },
  number: (value) => (value < 0.0001 ? "below 0.0001" : value.toFixed(4)),
});

const attend = asker(
  "attention",
  (found, question) => {
    const shown = found.weights.length, total = found.tokens.length;
    el("map").hidden = false;
    el("map-about").textContent = about(found);
    el("range").textContent = `Tokens ${number(found.first + 1)} to ${number(found.first + shown)} of ${number(total)}`;
    el("pages").hidden = shown === total;
    el("previous").disabled = found.first === 0;
    el("next").disabled = found.first + shown >= total;
    el("previous").onclick = () => turn(Math.max(0, found.first - model.rows));
    el("next").onclick = () => turn(found.first + shown);
    el("largest").textContent = found.largest.toFixed(4);
    el("cell").textContent = "Point at a cell for its value.";
    showMap.show(found);
    const said = question.lines ? ["This is the map of the first line."] : [];
    if (found.long) {
      said.push(cut(found.parts > 1 ? `this is the first of ${found.parts} windows` : `truncated (${LONG[question.long]})`));
    }
    return said.join(" ");
  },
  () => { el("map").hidden = true; },
  () => ({ layer: Number(el("layer").value), head: Number(el("head").value), first: page }),
);

function about({ window, weights }) {
  const rows = weights[0].length;
  const made = window === null
    ? `each of which mixes all tokens (projection ${model.projection})`
    : window === 1
      ? "one for each token: the text has at most k tokens"
      : `each of ${window} neighbouring tokens${model.overlap ? " and others around them" : ""}`;
  return `How much each token (row) attends to the ${number(rows)} projected rows of keys and values (columns), ${made}. `
    + "Each row of the map sums to 1.";
}

function begin(question) {
  attended = question;
  turn(0);
}

function turn(first) {
  page = first;
  attend(attended);
}

async function readFile() {
  const [file] = el("file").files;
  el("file-error").textContent = "";
  if (!file) return;
  try {
    if (file.size > model.largest) {
      throw new Error(`${file.name} has ${number(file.size)} bytes; this page takes at most ${number(model.largest)}.`);
    }
    el("text").value = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch (error) {
    el("file").value = "";
    el("file-error").textContent = error instanceof TypeError ? `${file.name} is not UTF-8 text.` : error.message;
  }
  compare();
}

function insertMask() {
  const text = el("text");
  text.focus();
  if (document.execCommand("insertText", false, model.mask)) return; // the only way that can be undone
  text.setRangeText(model.mask, text.selectionStart, text.selectionEnd, "end");
  compare();
}

function options(select, entries) {
  select.replaceChildren(...entries.map(([value, text]) => new Option(text, value)));
}

function numbered(count) {
  return Array.from({ length: count }, (_, i) => [i, `${i + 1} of ${count}`]);
}

function present() {
  const can = (question) => model.routes.includes(`/api/${question}`);
  el("name").textContent = model.name;
  document.title = `${model.name} – Linformer demo`;
  const facts = [
    can("classify") ? `classifier of ${model.labels.length} classes` : "masked language model",
    `${number(model.parameters)} parameters`,
    `n = ${number(model.n)} tokens`,
  ];
  if (can("attention")) {
    facts.push(`k = ${model.k.join(" to ")}`, `${model.layers} layers of ${model.heads} heads`);
    facts.push(`projection ${model.projection}`, `sharing ${model.sharing}`);
    options(el("layer"), numbered(model.layers));
    options(el("head"), numbered(model.heads));
  }
  el("facts").textContent = facts.join(" · ");
  options(el("long"), model.long.map((name) => [name, LONG[name]]));
  el("long").value = model.cut; // as the texts of the training were
  el("top").max = model.candidates;
  for (const question of ["fill-mask", "classify", "attention"]) el(question).hidden = !can(question);
  el("insert-mask").hidden = !can("fill-mask");
  el("classifier-options").hidden = !can("classify");
  if (can("fill-mask")) el("text").value = `He opened the ${model.mask} and walked into the room.`;
}

function listen() {
  const asks = { "fill-mask": fillMask, classify, attention: begin };
  for (const [section, ask] of Object.entries(asks)) {
    el(`${section}-form`).addEventListener("submit", (event) => {
      event.preventDefault();
      ask(questions[section]());
    });
  }
  for (const id of ["layer", "head"]) {
    el(id).addEventListener("change", () => { if (!el("map").hidden) attend(attended); });
  }
  for (const kind of ["input", "change"]) addEventListener(kind, compare);
  el("file").addEventListener("change", readFile);
  el("insert-mask").addEventListener("click", insertMask);
  el("lines").addEventListener("change", () => { el("second-field").hidden = el("lines").checked; });
}

try {
  model = await get("/api/model");
  present();
  listen();
} catch (error) {
  el("facts").textContent = error.message;
  el("facts").className = "error";
}

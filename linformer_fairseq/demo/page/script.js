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

let model;
let attended; // the text of the attention map, which the field may no longer have
let page = 0; // the first token of the attention map

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

// Runs one question of a section at a time, and shows its state and errors. The last question wins.
function asker(section, ask, show, hide) {
  let latest = 0;
  return async () => {
    const mine = ++latest;
    el(`${section}-status`).textContent = "Computing…";
    el(`${section}-error`).textContent = "";
    try {
      const found = await ask();
      if (mine === latest) el(`${section}-status`).textContent = show(found);
    } catch (error) {
      if (mine !== latest) return;
      hide();
      el(`${section}-status`).textContent = "";
      el(`${section}-error`).textContent = error.message;
    }
  };
}

// Replaces the rows of a table; a cell is [text, class] or a node.
function fill(table, rows) {
  table.tBodies[0].replaceChildren(...rows.map((cells) => {
    const row = document.createElement("tr");
    row.append(...cells.map((cell) => {
      const made = document.createElement("td");
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

const asked = () => ({ text: el("text").value, second: el("lines").checked ? "" : el("second").value });

const cut = (how) => `The text has more than ${number(model.longest)} tokens: ${how}.`;

const fillMask = asker(
  "fill-mask",
  async () => {
    const text = el("text").value;
    return { text, ...await get("/api/fill-mask", { text, top: el("top").valueAsNumber }) };
  },
  ({ text, candidates }) => {
    fill(el("candidates"), candidates.map((one) => [
      [one.token, "token"], probability(one.probability), [inContext(text, one.token), "wide"],
    ]));
    return "";
  },
  () => { el("candidates").hidden = true; },
);

// The token in place of the mask, with some of the text around it.
function inContext(text, token) {
  const [before, after] = text.split(model.mask).map((part) => Array.from(part));
  const start = before.slice(-CONTEXT).join("").trimEnd(), end = after.slice(0, CONTEXT).join("");
  return (before.length > CONTEXT ? "…" : "") + (start + token).trimStart() + end + (after.length > CONTEXT ? "…" : "");
}

const classify = asker(
  "classify",
  async () => {
    const question = { ...asked(), lines: el("lines").checked, long: el("long").value };
    return { ...question, ...await get("/api/classify", question) };
  },
  ({ texts, lines, long }) => (lines ? showLines(texts, long) : showClasses(texts[0], long)),
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
  return counts.join("; ");
}

const showMap = new HeatMap(el("heat-map"), el("legend"), {
  say: (text) => { el("cell").textContent = text; },
  number: (value) => (value < 0.0001 ? "below 0.0001" : value.toFixed(4)),
});

const attend = asker(
  "attention",
  () => get("/api/attention", {
    ...attended, layer: Number(el("layer").value), head: Number(el("head").value), first: page,
  }),
  (found) => {
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
    if (!found.long) return "";
    return cut(found.parts > 1 ? `this is the first of ${found.parts} windows` : `truncated (${LONG[attended.long]})`);
  },
  () => { el("map").hidden = true; },
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

function begin() {
  attended = { ...asked(), long: el("long").value };
  turn(0);
}

function turn(first) {
  page = first;
  attend();
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
}

function insertMask() {
  const text = el("text");
  text.setRangeText(model.mask, text.selectionStart, text.selectionEnd, "end");
  text.focus();
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
  const first = (ask) => (event) => { event.preventDefault(); ask(); };
  el("fill-mask-form").addEventListener("submit", first(fillMask));
  el("classify-form").addEventListener("submit", first(classify));
  el("attention-form").addEventListener("submit", first(begin));
  for (const id of ["layer", "head"]) el(id).addEventListener("change", () => { if (!el("map").hidden) attend(); });
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

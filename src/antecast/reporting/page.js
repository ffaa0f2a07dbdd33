// Picks, copies and unfolds; the page shows everything without it.
"use strict";
const all = (query, root = document) => [...root.querySelectorAll(query)];

// One key of a chart is picked, or none: all marks with other keys fade.
function pick(figure, key) {
  figure.dataset.picked = key;
  for (const mark of all("[data-key]", figure)) mark.classList.toggle("faded", key !== "" && mark.dataset.key !== key);
  for (const button of all(".pick", figure)) button.setAttribute("aria-pressed", String(button.dataset.pick === key));
  const choice = figure.querySelector(".choose");
  if (choice) choice.value = key;
}
// Steps: what comes after the chosen one fades.
function stepper(figure) {
  const steps = all(".step", figure);
  let now = 0;
  const show = step => {
    now = step;
    for (const mark of all("[data-key]", figure)) mark.classList.toggle("faded", step > 0 && Number(mark.dataset.key) > step);
    steps.forEach((each, index) => each.setAttribute("aria-current", index + 1 === step ? "step" : "false"));
    if (step) document.querySelector(".told").textContent = `Step ${step}: ${steps[step - 1].textContent}`;
  };
  const move = by => { show(Math.min(Math.max(now + by, 1), steps.length)); };
  steps.forEach((each, index) => each.addEventListener("click", () => show(index + 1)));
  figure.querySelector(".back").addEventListener("click", () => move(-1));
  figure.querySelector(".next").addEventListener("click", () => move(1));
  figure.querySelector(".whole").addEventListener("click", () => show(0));
  figure.addEventListener("keydown", event => {
    const by = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    if (event.key === "Escape") show(0);
    if (!by) return;
    event.preventDefault();
    move(by);
    if (event.target.matches(".step")) steps[now - 1].focus();
  });
  for (const drawn of all("svg.drawn", figure))
    drawn.addEventListener("click", event => {
      const mark = event.target.closest("[data-key]");
      show(mark ? Math.max(Number(mark.dataset.key), 1) : 0);
    });
}
for (const figure of all("figure")) {
  if (figure.querySelector(".steps")) { stepper(figure); continue; }
  const choice = figure.querySelector(".choose");
  if (choice) choice.addEventListener("change", () => pick(figure, choice.value));
  for (const button of all(".pick", figure))
    button.addEventListener("click", () => pick(figure, figure.dataset.picked === button.dataset.pick ? "" : button.dataset.pick));
  for (const drawn of all("svg.drawn", figure))
    drawn.addEventListener("click", event => {
      const mark = event.target.closest("[data-key]");
      if (mark || figure.dataset.picked) pick(figure, mark && mark.dataset.key !== figure.dataset.picked ? mark.dataset.key : "");
    });
  figure.addEventListener("keydown", event => { if (event.key === "Escape") pick(figure, ""); });
}

// A page that was not opened from a disk or over a secure line has no clipboard of its own.
async function copied(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.body.appendChild(Object.assign(document.createElement("textarea"), { value: text }));
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (!done) throw new Error("not copied");
}
for (const button of all(".copy"))
  button.addEventListener("click", async () => {
    let word = "Copied";
    try { await copied(button.parentElement.querySelector("pre").textContent); } catch { word = "Select it to copy"; }
    document.querySelector(".told").textContent = button.textContent = word;
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });

const folds = all("details.section"), unfold = document.querySelector(".unfold");
const open = value => { for (const each of folds) each.open = value; };
if (unfold)
  unfold.addEventListener("click", () => {
    const whole = unfold.getAttribute("aria-expanded") !== "true";
    open(whole);
    unfold.setAttribute("aria-expanded", String(whole));
    unfold.textContent = whole ? "Close all sections" : "Open all sections";
  });
function reveal() {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (target && target.matches("details")) { target.open = true; target.scrollIntoView(); }
}
addEventListener("hashchange", reveal);
for (const link of all("nav a")) link.addEventListener("click", () => setTimeout(reveal));
reveal();
let before = [];
addEventListener("beforeprint", () => { before = folds.map(each => each.open); open(true); });
addEventListener("afterprint", () => folds.forEach((each, index) => { each.open = before[index]; }));

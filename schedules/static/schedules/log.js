// Search in the output of a run: every match is marked, Enter and Shift-Enter go to the next and the previous one.
(() => {
  const field = () => document.querySelector("#find"), log = () => document.querySelector("pre.lines"), MOST = 1000;
  let matches = [], place = -1;

  function find() {
    matches = [];
    const typed = (field()?.value || "").toLowerCase();
    if (typed && log()) {
      for (const line of log().children) matches.push(...within(line, typed).slice(0, MOST - matches.length));
    }
    CSS.highlights?.set("found", new Highlight(...matches));
    place = Math.min(Math.max(place, 0), matches.length - 1);
  }
  // A match may begin in one colour and end in another, so that it spans several texts.
  function within(line, typed) {
    const texts = [], walker = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) texts.push(walker.currentNode);
    const whole = texts.map((text) => text.data).join("").toLowerCase(), found = [];
    const at = (offset) => {
      for (const text of texts) {
        if (offset <= text.length) return [text, offset];
        offset -= text.length;
      }
      return [texts.at(-1), texts.at(-1).length];
    };
    for (let start = whole.indexOf(typed); start >= 0; start = whole.indexOf(typed, start + typed.length)) {
      const range = new Range();
      range.setStart(...at(start));
      range.setEnd(...at(start + typed.length));
      found.push(range);
    }
    return found;
  }
  function show() {
    const words = matches.length ? `${place + 1} of ${matches.length}${matches.length === MOST ? "+" : ""}` : "No match";
    document.querySelector("#found").textContent = field().value ? words : "";
    const current = matches[place];
    CSS.highlights?.set("found-here", current ? new Highlight(current) : new Highlight());
    current?.startContainer.parentElement.scrollIntoView({ block: "nearest" });
  }
  function step(by) {
    if (!matches.length) return;
    place = (place + by + matches.length) % matches.length;
    show();
  }
  document.addEventListener("input", (event) => {
    if (event.target !== field()) return;
    place = 0;
    find();
    show();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.target !== field()) return;
    event.preventDefault();
    step(event.shiftKey ? -1 : 1);
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-find]");
    if (button) step(Number(button.dataset.find));
  });
  // New lines may have come.
  document.addEventListener("htmx:after:swap", () => { if (field()?.value) find(); });
})();

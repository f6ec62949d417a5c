// Search in the output of a run: marks every match; Enter and Shift-Enter go to the next and the previous one.
(() => {
  const field = () => document.querySelector("#find"), log = () => document.querySelector("pre.lines"), MAX_MATCHES = 1000;
  let matches = [], current = -1;

  function find() {
    matches = [];
    const typed = (field()?.value || "").toLowerCase();
    if (typed && log()) {
      for (const line of log().children) matches.push(...within(line, typed).slice(0, MAX_MATCHES - matches.length));
    }
    CSS.highlights?.set("found", new Highlight(...matches));
    current = Math.min(Math.max(current, 0), matches.length - 1);
  }
  // A match can span several text nodes, because it may begin in one colour and end in another.
  function within(line, typed) {
    const texts = [], walker = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) texts.push(walker.currentNode);
    const whole = texts.map((text) => text.data).join("").toLowerCase(), ranges = [];
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
      ranges.push(range);
    }
    return ranges;
  }
  function show() {
    const count = matches.length ? `${current + 1} of ${matches.length}${matches.length === MAX_MATCHES ? "+" : ""}` : "No match";
    document.querySelector("#found").textContent = field().value ? count : "";
    const match = matches[current];
    CSS.highlights?.set("found-here", match ? new Highlight(match) : new Highlight());
    match?.startContainer.parentElement.scrollIntoView({ block: "nearest" });
  }
  function step(by) {
    if (!matches.length) return;
    current = (current + by + matches.length) % matches.length;
    show();
  }
  document.addEventListener("input", (event) => {
    if (event.target !== field()) return;
    current = 0;
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
  // The refresh may have added lines.
  document.addEventListener("htmx:after:swap", () => { if (field()?.value) find(); });
})();

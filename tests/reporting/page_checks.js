(paper => {
  // What is wrong with a page as it is shown now, in words: nothing, if all is well.
  const found = [], width = innerWidth, root = document.documentElement;
  const seen = each => each.checkVisibility() && each.getClientRects().length > 0;
  const all = (query, inside = document) => [...inside.querySelectorAll(query)].filter(seen);
  const name = each =>
    `${each.tagName.toLowerCase()}.${each.getAttribute("class") || ""} "${each.textContent.trim().slice(0, 40)}"`;
  if (root.scrollWidth > width) found.push(`the page is ${root.scrollWidth} wide`);
  for (const each of all("body *:not(svg *)")) {
    if (each.closest(".told")) continue;
    // On a screen, tables and diagrams may scroll in a place of their own; paper does not scroll.
    if (!paper && each.closest(".wide, pre") && !each.matches(".wide, pre")) continue;
    const box = each.getBoundingClientRect();
    if (box.width && (box.right > width + 1 || box.left < -1)) found.push(`out of the page: ${name(each)}`);
  }
  for (const chart of all(".chart")) {
    const drawn = all(":scope > svg", chart);
    if (drawn.length !== 1) { found.push(`${drawn.length} drawings at once`); continue; }
    const frame = drawn[0].getBoundingClientRect();
    const texts = all("text", drawn[0]).map(each => [each, each.getBoundingClientRect()]);
    texts.forEach(([each, box], i) => {
      if (box.left < frame.left - 2 || box.right > frame.right + 2) found.push(`leaves its chart: ${name(each)}`);
      if (box.height < 10) found.push(`too small: ${name(each)}, ${box.height}`);
      for (const [other, place] of texts.slice(0, i)) {
        const across = Math.min(box.right, place.right) - Math.max(box.left, place.left);
        const down = Math.min(box.bottom, place.bottom) - Math.max(box.top, place.top);
        if (across > 1 && down > 3) found.push(`${name(each)} covers ${name(other)}`);
      }
    });
    const dots = all(".dot", drawn[0]).map(each => each.getBoundingClientRect());
    for (const [each, box] of texts.filter(([each]) => each.matches(".tick")))
      for (const dot of dots) {
        const across = Math.min(box.right, dot.right) - Math.max(box.left, dot.left);
        const down = Math.min(box.bottom, dot.bottom) - Math.max(box.top, dot.top);
        if (across > 2 && down > 4) { found.push(`a mark covers ${name(each)}`); break; }
      }
    if (!all(".line, .segment, .dot, [fill]", drawn[0]).length) found.push("a chart without marks");
  }
  for (const each of all(".code pre"))
    if (each.scrollWidth > each.clientWidth + 1) found.push(`clipped: ${name(each)}`);
  for (const each of all("dd"))
    if (each.clientWidth < Math.min(200, width / 2)) found.push(`narrow: ${name(each)}`);
  for (const each of all(".cards"))
    if (each.scrollWidth > each.clientWidth + 1) found.push(`a table is cut: ${name(each)}`);
  return found;
})

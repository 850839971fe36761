"use strict";

// Sorts tables by their headers, saves them as CSV, and filters runs by the reader's words.
{
  const compareTexts = new Intl.Collator("en", { numeric: true }).compare;

  // The number of a cell, or its text; null for a dash, which sorts last.
  function keyOf(row, column) {
    const cell = row.cells[column];
    const number = cell?.querySelector("data")?.value;
    if (number !== undefined) return Number(number);
    const text = cell?.textContent.trim() ?? "";
    if (text === "" || text === "–") return null;
    const plain = text.replaceAll(",", "");
    return Number.isNaN(Number(plain)) ? text : Number(plain);
  }

  function compare(one, other, direction) {
    if (one === null || other === null) return (one === null) - (other === null);
    if (typeof one === "number" && typeof other === "number") return direction * (one - other);
    return direction * compareTexts(String(one), String(other));
  }

  function sort(table, header) {
    const order = header.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
    for (const one of table.tHead.rows[0].cells) one.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", order);
    const direction = order === "ascending" ? 1 : -1;
    const sorted = sortedParts(table);
    const keyed = sorted.map((part) => [keyOf(part.rows?.[0] ?? part, header.cellIndex), part]);
    keyed.sort(([one], [other]) => compare(one, other, direction));
    sorted[0].parentNode.append(...keyed.map(([, part]) => part));
  }

  // Rows, or the bodies of a table with several, whose rows stay together.
  function sortedParts(table) {
    return [...(table.tBodies.length > 1 ? table.tBodies : table.tBodies[0].rows)];
  }

  function makeSortable(table) {
    if (sortedParts(table).length < 2) return;
    for (const header of table.tHead.rows[0].cells) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...header.childNodes);
      // The whole cell is clickable; clicks on the button bubble up to it.
      header.addEventListener("click", () => sort(table, header));
      header.append(button);
    }
  }

  // Each word must occur in a searched column.
  function filter(rows, typed) {
    const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const [row, text] of rows) {
      row.hidden = !words.every((word) => text.includes(word));
      shown += row.hidden ? 0 : 1;
    }
    return shown;
  }

  function searchedText(table, row) {
    const searched = [...table.tHead.rows[0].cells].filter((header) => "searched" in header.dataset);
    return searched.map((header) => row.cells[header.cellIndex].textContent).join(" ").toLowerCase();
  }

  function makeFilter(box) {
    const table = document.getElementById(box.dataset.filters);
    const rows = [...table.tBodies[0].rows].map((row) => [row, searchedText(table, row)]);
    const count = box.querySelector("output");
    const tell = (shown) => {
      const [some, all] = [shown, rows.length].map((amount) => amount.toLocaleString("en"));
      count.value = `${some} of ${all} runs`;
    };
    box.querySelector("input").addEventListener("input", ({ target }) => {
      tell(filter(rows, target.value));
    });
    tell(rows.length);
    box.hidden = false;
  }

  // Unrounded numbers, with intervals in separate columns; text like a formula gets a leading apostrophe.
  function csv(table) {
    const rows = [...table.rows].map((row) => [...row.cells].map(parts));
    const columns = Math.max(...rows.map((row) => row.length));
    const split = [...Array(columns).keys()].map((at) => rows.some((row) => row[at]?.[1]));
    const lines = rows.map((row, place) =>
      row.flatMap(([value, interval], at) =>
        split[at] ? [value, place === 0 ? `${value}: interval` : interval] : [value],
      ),
    );
    return lines.map((line) => line.map(quoted).join(",")).join("\r\n");
  }

  function parts(cell) {
    const [plain, small] = [cell.cloneNode(true), cell.querySelector("data + small:not(.why)")];
    plain.querySelectorAll("data + small, .why").forEach((one) => one.remove());
    const number = plain.querySelector("data");
    number?.replaceWith(number.value);
    return [plain.textContent, small?.textContent ?? ""].map((text) => text.replace(/\s+/g, " ").trim());
  }

  function quoted(text) {
    const isFormula = /^[=+\-@\uff1d\uff0b\uff0d\uff20]/.test(text) && Number.isNaN(Number(text));
    return `"${isFormula ? "'" : ""}${text.replaceAll('"', '""')}"`;
  }

  function makeExport(table) {
    const name = table.closest("[aria-label]").getAttribute("aria-label");
    const make = () => URL.createObjectURL(new Blob([csv(table)], { type: "text/csv" }));
    table.parentNode.after(exportButton("CSV", name.replace(/[^\w-]+/g, "-"), make));
  }

  document.querySelectorAll("main table").forEach(makeSortable);
  document.querySelectorAll("main table").forEach(makeExport);
  document.querySelectorAll("[data-filters]").forEach(makeFilter);
}

"use strict";

// Returns a button that saves a file, whose URL `make` returns; tables.js uses it, too.
const exportButton = (type, name, make) => {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "export";
  button.textContent = type;
  button.title = `Save as ${type}`;
  button.addEventListener("click", async () => {
    const link = document.createElement("a");
    link.href = await make();
    link.download = `${name}.${type.toLowerCase()}`;
    link.click();
  });
  return button;
};

// Draws the page's charts from their Vega-Lite: visible charts first, others when the browser is idle, and all
// before printing.
{
  const OPTIONS = {
    // Expressions are interpreted, since the page's policy forbids eval.
    ast: true,
    actions: false,
    config: { aria: false, legend: { disable: true } },
    defaultStyle: false,
    mode: "vega-lite",
    renderer: "svg",
    tooltip: { disableDefaultStyle: true },
  };

  class Chart {
    #data;
    #place;
    #label;
    #result = null;
    #hidden = new Set();

    constructor(figure) {
      this.#place = figure.querySelector(".chart");
      this.#label = this.#place.getAttribute("aria-label");
      this.#data = JSON.parse(figure.querySelector("script").textContent);
      this.#place.after(this.#controls());
      const files = document.createElement("span");
      for (const type of ["PNG", "SVG"]) {
        files.append(exportButton(type, this.#data.name, () => this.#file(type)));
      }
      figure.querySelector("figcaption").append(files);
    }

    get place() {
      return this.#place;
    }

    async draw() {
      if (this.#result !== null) return;
      this.#result = vegaEmbed(this.#place, this.#spec(), OPTIONS);
      await this.#result;
      // The container has the alternative text, so parts of the drawing need none.
      this.#place.querySelector("svg").setAttribute("aria-hidden", "true");
    }

    // A saved file has a legend and a white background.
    async #file(type) {
      const spec = { ...this.#spec(), background: "white", height: 290 };
      const options = { ...OPTIONS, config: { aria: false } };
      const { view } = await vegaEmbed(document.createElement("div"), spec, options);
      return view.toImageURL(type.toLowerCase(), 3);
    }

    // The specification contains the initial value of the parameter.
    #spec() {
      const spec = structuredClone(this.#data.spec);
      // Vega replaces the container's label with the description.
      spec.description = this.#label;
      for (const parameter of spec.params ?? []) {
        if (parameter.name === "shown") parameter.value = this.#shown();
      }
      return spec;
    }

    #shown() {
      return Object.keys(this.#data.series).filter((name) => !this.#hidden.has(name));
    }

    #controls() {
      const controls = document.createElement("div");
      controls.className = "controls";
      controls.setAttribute("role", "group");
      controls.setAttribute("aria-label", "Shown in the chart");
      for (const [name, colour] of Object.entries(this.#data.series)) {
        controls.append(this.#switch(name, colour));
      }
      return controls;
    }

    #switch(name, colour) {
      const button = makeButton(name, true);
      button.prepend(swatch(colour));
      button.addEventListener("click", async () => {
        if (!this.#hidden.delete(name)) this.#hidden.add(name);
        button.setAttribute("aria-pressed", String(!this.#hidden.has(name)));
        await this.draw();
        const { view } = await this.#result;
        await view.signal("shown", this.#shown()).runAsync();
      });
      return button;
    }
  }

  function makeButton(text, isPressed) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = text;
    button.setAttribute("aria-pressed", String(isPressed));
    return button;
  }

  // An SVG, since printers omit backgrounds.
  function swatch(colour) {
    const names = "http://www.w3.org/2000/svg";
    const drawing = document.createElementNS(names, "svg");
    drawing.setAttribute("viewBox", "0 0 10 10");
    drawing.setAttribute("aria-hidden", "true");
    const square = document.createElementNS(names, "rect");
    for (const side of ["width", "height"]) square.setAttribute(side, "10");
    square.setAttribute("fill", colour);
    drawing.append(square);
    return drawing;
  }

  function drawWhenSeen(charts) {
    const byPlace = new Map(charts.map((chart) => [chart.place, chart]));
    const observer = new IntersectionObserver(
      (entries) => {
        for (const { isIntersecting, target } of entries) {
          if (isIntersecting) byPlace.get(target).draw();
        }
      },
      { rootMargin: "200px" },
    );
    for (const place of byPlace.keys()) observer.observe(place);
  }

  function drawWhenIdle(charts) {
    const later = window.requestIdleCallback ?? setTimeout;
    const next = async () => {
      const chart = charts.shift();
      if (!chart) return;
      await chart.draw();
      later(next);
    };
    later(next);
  }

  const charts = [...document.querySelectorAll("figure")].map((figure) => new Chart(figure));
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const folded of opened) folded.open = true;
  });
  window.addEventListener("afterprint", () => opened.forEach((one) => (one.open = false)));
  // Drawing waits only for promises, so charts are complete before printing.
  window.addEventListener("beforeprint", () => charts.forEach((chart) => chart.draw()));
  drawWhenSeen(charts);
  window.addEventListener("load", () => drawWhenIdle([...charts]));
}

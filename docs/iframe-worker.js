// From the disk browsers start no workers: the search runs in a hidden frame.
// The plugin offline takes a script of this name for the one that it would fetch.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      const page = frame.contentWindow;
      page.document.open();
      page.document.write(
        "<script>postMessage = data => parent.postMessage(data, '*');</" + "script>"
      );
      page.document.close();
      const script = page.document.createElement("script");
      const ready = new Promise((resolve) => (script.onload = resolve));
      script.src = url;
      page.document.body.appendChild(script);
      this.postMessage = (data) =>
        ready.then(() =>
          page.dispatchEvent(new page.MessageEvent("message", { data }))
        );
      window.addEventListener("message", ({ source, data }) => {
        if (source === page)
          this.dispatchEvent(new MessageEvent("message", { data }));
      });
    }
  };
}

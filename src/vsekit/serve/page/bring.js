// Pictures people bring along: dropped, pasted or chosen.

/** bring(files): called with what was brought. */
export function listen(input, bring) {
  input.addEventListener("change", () => {
    bring(input.files);
    input.value = "";
  });
  addEventListener("paste", (event) => {
    if (!event.clipboardData.files.length) return;
    event.preventDefault();
    bring(event.clipboardData.files);
  });
  const files = (event) => event.dataTransfer.types.includes("Files") && !dragged;
  let dragged = false; // a picture of this page, on its way out
  addEventListener("dragstart", () => { dragged = true; });
  addEventListener("dragend", () => { dragged = false; });
  addEventListener("dragover", (event) => {
    if (!files(event)) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "copy";
    document.body.classList.add("dropping");
  });
  addEventListener("dragleave", (event) => { if (!event.relatedTarget) document.body.classList.remove("dropping"); });
  addEventListener("drop", (event) => {
    document.body.classList.remove("dropping");
    if (!files(event)) return;
    event.preventDefault();
    bring(event.dataTransfer.files);
  });
}

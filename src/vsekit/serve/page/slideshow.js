// One picture after another, over the whole screen, until somebody stops it.

const SECONDS = 4;

export class Slideshow {
  /** dialog: what fills the screen. step(): shows the next picture, or says false where there is none. changed(playing). */
  constructor(dialog, { step, changed }) {
    Object.assign(this, { dialog, step, changed, playing: false });
    document.addEventListener("fullscreenchange", () => { if (!document.fullscreenElement) this.stop(); });
  }

  toggle() { this.playing ? this.stop() : this.start(); }

  start() {
    if (this.playing) return;
    this.playing = true;
    this.dialog.classList.add("playing");
    this.dialog.requestFullscreen?.().catch(() => {}); // where it is not allowed, it plays in the window
    this.changed(true);
    this.#later();
  }

  stop() {
    if (!this.playing) return;
    this.playing = false;
    clearTimeout(this.timer);
    this.dialog.classList.remove("playing");
    if (document.fullscreenElement) document.exitFullscreen().catch(() => {});
    this.changed(false);
  }

  /** Somebody went to another picture: that one has its whole time. */
  again() { if (this.playing) this.#later(); }

  #later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => { if (this.step() === false) this.stop(); }, 1000 * SECONDS);
  }
}

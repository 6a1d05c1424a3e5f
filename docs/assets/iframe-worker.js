/* Browsers refuse to start a Worker from a folder (file://). The search then runs in a hidden
   frame, which answers to the same messages; the theme looks for the name IFrameWorker. */
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(address) {
      super()
      this.onmessage = null
      this.waiting = []
      const frame = document.createElement("iframe")
      frame.hidden = true
      frame.title = "search"
      document.documentElement.append(frame)
      const inside = frame.contentWindow
      inside.document.write("<!doctype html><html lang='en'><title>search</title><body></body></html>")
      inside.document.close()
      inside.postMessage = data => {
        const event = new MessageEvent("message", { data })
        this.dispatchEvent(event)
        if (this.onmessage) this.onmessage(event)
      }
      inside.importScripts = (...addresses) => addresses.reduce(
        (before, one) => before.then(() => this.load(inside, one)), Promise.resolve())
      this.load(inside, new URL(address, location.href).href).then(() => {
        this.inside = inside
        this.waiting.splice(0).forEach(data => this.postMessage(data))
      })
    }

    load(inside, address) {
      return new Promise((done, failed) => {
        const script = inside.document.createElement("script")
        script.onload = done
        script.onerror = failed
        script.src = address
        inside.document.body.append(script)
      })
    }

    postMessage(data) {
      if (!this.inside) return void this.waiting.push(data)
      this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }))
    }

    terminate() {}
  }
}

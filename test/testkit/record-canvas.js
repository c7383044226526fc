// Runs in a page before its own script: keeps what the newest chart was made of, as `chartMade`.
// Paths of one segment are rules and ticks, longer ones are lines of data.
globalThis.chartMade = { texts: [], moves: 0, lines: 0 }
{
  let path = { moves: 0, lines: 0 }
  const before = {
    scale: () => Object.assign(globalThis.chartMade, { texts: [], moves: 0, lines: 0 }),
    fillText: (text) => globalThis.chartMade.texts.push(text),
    beginPath: () => {
      path = { moves: 0, lines: 0 }
    },
    moveTo: () => path.moves++,
    lineTo: () => path.lines++,
    stroke: () => {
      if (path.lines < 2) return
      globalThis.chartMade.moves += path.moves
      globalThis.chartMade.lines += path.lines
    },
  }
  const pen = CanvasRenderingContext2D.prototype
  for (const [name, note] of Object.entries(before)) {
    const own = pen[name]
    pen[name] = function (...words) {
      note(...words)
      return own.apply(this, words)
    }
  }
}

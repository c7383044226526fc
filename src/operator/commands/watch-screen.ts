// Redraws a text on the terminal every second until q, Ctrl-C or a signal.
// Uses the alternate screen, so that the shell's content is there again afterwards, and restores
// the terminal however it ends.
import { messageOf } from '../../base/errors.ts'

/** Time from one sample to the next, and the least between the end of one and the next. */
const refreshMs = 1000
const pauseMsMin = 100
const enter = '\u001b[?1049h\u001b[?25l'
const leave = '\u001b[?25h\u001b[?1049l'
const home = '\u001b[H'
const clearLine = '\u001b[K'
const clearBelow = '\u001b[J'
const ctrlC = '\u0003'
const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** The text for a terminal of this width; called once per refresh and after a resize. */
export type Draw = (width: number) => string

/**
 * Calls `sample` every second and draws what it returns. A sample that fails is reported below the
 * last text, and retried.
 */
export async function watchScreen(sample: () => Promise<Draw>): Promise<void> {
  const { stdin, stdout } = process
  let isEnded = false
  let wake = () => {}
  let draw: Draw = () => ''
  let problem = ''
  let timer: NodeJS.Timeout | undefined
  const end = () => {
    isEnded = true
    wake()
  }
  const onKeys = (keys: Buffer) => {
    if (/[qQ]/.test(keys.toString()) || keys.includes(ctrlC)) end()
  }
  const redraw = () => {
    const { columns = 80, rows = 24 } = stdout
    const text = problem === '' ? draw(columns) : `${draw(columns)}\n\n${problem}`
    stdout.write(screenOf(text, rows))
  }
  const restore = () => stdout.write(leave)
  for (const signal of signals) process.on(signal, end)
  process.once('exit', restore)
  stdout.on('resize', redraw)
  if (stdin.isTTY) stdin.setRawMode(true)
  stdin.on('data', onKeys)
  stdout.write(enter)
  try {
    while (!isEnded) {
      const startedMs = performance.now()
      try {
        draw = await untilEnd(sample())
        problem = ''
      } catch (error) {
        problem = `${messageOf(error)}; retrying`
      }
      if (isEnded) break
      redraw()
      await untilEnd(pause(Math.max(pauseMsMin, refreshMs - (performance.now() - startedMs))))
    }
  } finally {
    clearTimeout(timer)
    for (const signal of signals) process.off(signal, end)
    stdout.off('resize', redraw)
    stdin.off('data', onKeys)
    if (stdin.isTTY) stdin.setRawMode(false)
    stdin.pause()
    process.off('exit', restore)
    restore()
  }

  /** Resolves with the work, or early with what was drawn last when the loop is to end. */
  async function untilEnd(work: Promise<Draw>): Promise<Draw> {
    const ended = new Promise<Draw>((resolve) => {
      wake = () => resolve(draw)
    })
    return Promise.race([work, ended])
  }

  function pause(ms: number): Promise<Draw> {
    return new Promise((resolve) => {
      timer = setTimeout(() => resolve(draw), ms)
    })
  }
}

/** Overwrites the screen in place, without a flash; lines beyond its height are left out. */
function screenOf(text: string, rows: number): string {
  const lines = text.split('\n').slice(0, rows)
  return `${home}${lines.map((line) => `${line}${clearLine}`).join('\r\n')}${clearBelow}`
}

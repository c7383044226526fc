// What is loaded into every process and worker of a gateway that is to be broken: it shifts the wall
// clock, takes memory and collects garbage as the file BREAK_CONTROL says, which it reads ten times
// a second.
const script = `
import { readFileSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { isMainThread } from 'node:worker_threads'
const file = process.env.BREAK_CONTROL
const real = Date
let shiftMs = 0
let ballast = []
let hasCollected = false
const now = () => real.now() + shiftMs
globalThis.Date = new Proxy(real, {
  get: (target, name) => (name === 'now' ? now : target[name]),
  construct: (target, words, type) => Reflect.construct(target, words.length ? words : [now()], type),
  apply: () => new real(now()).toString(),
})
const take = (megabytes) => {
  if (!isMainThread) return
  if (megabytes > 0 && ballast.length < megabytes * 16)
    for (let n = 0; n < 160; n++) ballast.push(Array.from({ length: 8192 }, () => n))
  if (megabytes > 0 || ballast.length === 0) return
  ballast = []
  collect()
}
const collect = () => {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
}
const read = () => {
  try {
    const state = JSON.parse(readFileSync(file, 'utf8'))
    shiftMs = state.shiftMs ?? 0
    take(state.ballastMb ?? 0)
    if (state.isCollected && !hasCollected) collect()
    hasCollected = state.isCollected
  } catch {}
}
if (file) {
  read()
  setInterval(read, 100).unref()
}
`

/** For NODE_OPTIONS. */
export const preload = `--import=data:text/javascript,${encodeURIComponent(script)}`

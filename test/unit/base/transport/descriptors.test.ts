import { spawnSync } from 'node:child_process'
import { expect, test } from 'vitest'

/** Runs in a process of its own, which may use up its descriptors. */
function runLimited(script: string): unknown {
  const url = new URL('../../../../dist/src/base/transport/descriptors.js', import.meta.url).href
  const head = `const { DescriptorReserve } = await import(${JSON.stringify(url)})
    const { openSync, closeSync } = await import('node:fs')
    const log = { error() {}, info() {} }
    const open = () => { const held = []
      try { for (;;) held.push(openSync('/dev/null')) } catch { return held } }`
  const words = ['-c', 'ulimit -n 128; exec "$0" "$@"', process.execPath, '--input-type=module']
  const ran = spawnSync('/bin/sh', [...words, '-e', head + script])
  if (ran.status !== 0) throw new Error(String(ran.stderr))
  return JSON.parse(String(ran.stdout))
}

test('the reserve is given to the process when nothing else is left, and taken back later', () => {
  const seen = runLimited(`
    const reserve = new DescriptorReserve(log)
    const before = !reserve.admits()
    const held = open()
    reserve.look()
    const during = !reserve.admits()
    const more = open()
    for (const fd of more) closeSync(fd)
    reserve.look()
    const still = !reserve.admits()
    for (const fd of held) closeSync(fd)
    reserve.look()
    console.log(JSON.stringify({ before, during, more: more.length, still, after: !reserve.admits() }))
  `)
  expect(seen).toEqual({ before: false, during: true, more: 32, still: true, after: false })
})

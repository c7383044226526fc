// A flood of garbage, unpaced, for several seconds: nothing of it gets out, good shreds do.
import { afterEach, expect, test } from 'vitest'
import { makeShreds, randomBytes } from '../testkit/shreds.ts'
import { asTexts, ShredStage } from '../testkit/shredstream.ts'
import { spanMs } from '../testkit/slice.ts'
import { until } from '../testkit/until.ts'

let stage: ShredStage | null = null

afterEach(async () => {
  await stage?.dispose()
  stage = null
})

const floodMs = spanMs(10_000, 3_000)

test('garbage as fast as it can be sent', async () => {
  stage = await ShredStage.open()
  const receiver = await stage.receiver()
  stage.subscribe(receiver.port)
  await stage.settled()
  const good = makeShreds({ slots: 20, sets: 2 })
  const garbage = Array.from({ length: 2000 }, (_, place) => randomBytes(place, place + 1))
  const [friend, enemy] = [await stage.source(), await stage.source()]
  await stage.send(good.slice(0, 64), friend)
  const endMs = performance.now() + floodMs
  let noise = 0
  let next = 64
  while (performance.now() < endMs) {
    for (let round = 0; round < 200; round += 1, noise += 1)
      enemy.send(garbage[noise % garbage.length]!, stage.port, '127.0.0.1')
    if (next < good.length) friend.send(good[next++]!, stage.port, '127.0.0.1')
    await new Promise((resolve) => setImmediate(resolve))
  }
  const { report } = stage.product
  const seen = () => stage!.totals().received! + Number(report().kernelDrops)
  await until(() => seen() >= noise + next, 'all packets are accounted for')
  const { accepted, size, variant } = stage.totals()
  await until(() => receiver.packets.length >= accepted!, 'all good ones')
  expect(receiver.packets.length).toBe(accepted)
  const known = new Set(asTexts(good))
  expect(asTexts(receiver.packets).every((text) => known.has(text))).toBe(true)
  expect(size! + variant!).toBe(stage.totals().received! - accepted!)
  expect(accepted).toBeGreaterThan(64)
})

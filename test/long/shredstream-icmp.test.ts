// ICMP errors about a destination: forged ones change nothing, those of its own machine pause it,
// and a live receiver is resumed at once.
import { afterEach, describe, expect, test } from 'vitest'
import { canForge, IcmpForger } from '../testkit/icmp.ts'
import { makeShreds } from '../testkit/shreds.ts'
import { asTexts, ShredStage } from '../testkit/shredstream.ts'
import { until } from '../testkit/until.ts'

let stage: ShredStage | null = null
const forgers: IcmpForger[] = []

afterEach(async () => {
  for (const forger of forgers.splice(0)) await forger.stop()
  await stage?.dispose()
  stage = null
})

const shreds = makeShreds({ slots: 32, sets: 2 })
/** Sends one shred after the other until the condition is true; returns how many were sent. */
async function sendUntil(holds: () => boolean, what: string, from: number): Promise<number> {
  let next = from
  const source = await stage!.source()
  await until(async () => {
    if (holds()) return true
    expect(next, `shreds ran out: ${what}`).toBeLessThan(shreds.length)
    await stage!.send([shreds[next++]!], source)
    return false
  }, what)
  return next
}
const state = () => stage!.destinations()[0]!

describe.skipIf(!canForge())('forged errors (needs python3 and raw sockets)', () => {
  test('from another address change nothing; from the target’s own they pause it', async () => {
    stage = await ShredStage.open()
    const receiver = await stage.receiver()
    stage.subscribe(receiver.port)
    await stage.settled()
    const about = { sourcePort: stage.product.sourcePort, port: receiver.port }
    const stranger = new IcmpForger({ ...about, outer: '127.0.0.77' })
    forgers.push(stranger)
    const sent = await sendUntil(() => stranger.sent >= 250, 'forged errors', 0)
    await until(() => receiver.packets.length >= sent, 'all shreds')
    expect(asTexts(receiver.packets)).toEqual(asTexts(shreds.slice(0, sent)))
    expect(state()).toMatchObject({ state: 'active', refused: 0 })
    await stranger.stop()
    // The same packets from the target's own address take effect: the forgery above was valid ICMP.
    const own = new IcmpForger({ ...about, outer: '127.0.0.1' })
    forgers.push(own)
    const next = await sendUntil(() => state().state === 'unreachable', 'a pause', sent)
    await own.stop()
    await sendUntil(() => state().state === 'active', 'shreds resumed', next)
  })
})

describe.each(['batch', 'dgram'] as const)('a closed port by %s', (io) => {
  test('is paused, probed, and resumed when it opens', async () => {
    stage = await ShredStage.open({ io })
    const closed = await stage.receiver()
    stage.subscribe(closed.port)
    await stage.settled()
    closed.socket.close()
    stage.forget(closed.socket)
    let next = 0
    // The fourth pause lasts two seconds, so that the probes and not its end resume the shreds.
    for (let pauses = 0; pauses < 4; pauses += 1) {
      next = await sendUntil(() => state().state === 'unreachable', 'a pause', next)
      if (pauses < 3) next = await sendUntil(() => state().state === 'active', 'its end', next)
    }
    const back = await stage.receiver({ port: closed.port })
    next = await sendUntil(() => back.packets.length > 0, 'a probe', next)
    await sendUntil(() => state().state === 'active', 'shreds resumed', next)
  })
})

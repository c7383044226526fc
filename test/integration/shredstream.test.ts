// ShredStream with real sockets: each shred once and byte-exact; lifecycle of a destination.
import { networkInterfaces } from 'node:os'
import { afterEach, describe, expect, test } from 'vitest'
import type { DestinationLeases } from '../../src/products/shredstream/destinations.ts'
import { makeShreds, shuffled } from '../testkit/shreds.ts'
import { asTexts, ShredStage } from '../testkit/shredstream.ts'
import { until } from '../testkit/until.ts'

let stage: ShredStage | null = null

afterEach(async () => {
  await stage?.dispose()
  stage = null
})

/** EAFNOSUPPORT. */
const unsupportedFamily = 97
const shreds = makeShreds({ slots: 4, sets: 2 })
const hasIpv6 = Object.values(networkInterfaces()).some((found) =>
  found?.some(({ address }) => address === '::1'),
)

describe.each(['batch', 'dgram'] as const)('shreds by %s', (io) => {
  test('reach every destination once, byte-exact, from one source port', async () => {
    stage = await ShredStage.open({ io, sources: ['127.0.0.1', '127.0.0.2'] })
    expect(String(stage.product.report().io).split('-')[0]).toBe(io)
    const receivers = [await stage.receiver(), await stage.receiver()]
    for (const { port } of receivers) stage.subscribe(port)
    await until(() => stage!.destinations().length === 2, 'destinations')
    await stage.settled()
    await Promise.all([
      stage.send(shuffled(shreds, 1), '127.0.0.1'),
      stage.send(shuffled(shreds, 2), '127.0.0.2'),
    ])
    const total = shreds.length
    await until(() => receivers.every(({ packets }) => packets.length >= total), 'all shreds')
    await until(() => stage!.totals().received === 2 * total, 'both sources')
    for (const { packets, senders } of receivers) {
      expect(asTexts(packets)).toEqual(asTexts(shreds))
      expect([...senders]).toEqual([stage.product.sourcePort])
    }
    await until(() => stage!.totals().sent === 2 * total, 'counted as sent')
    expect(stage.totals()).toMatchObject({ duplicate: total, accepted: total })
    const sources = stage.product.report().sources as { first: number; packets: number }[]
    expect(sources.map(({ packets }) => packets)).toEqual([total, total])
    expect(sources[0]!.first + sources[1]!.first).toBe(total)
  })

  test('are sent only by the holder of the destination, and not after its deadline', async () => {
    let user: Parameters<DestinationLeases['start']>[0] | null = null
    const held = new Set<string>()
    stage = await ShredStage.open(
      { io },
      {
        isHeld: (id) => held.has(id),
        start: (given) => {
          user = given
        },
        stop: () => Promise.resolve(),
      },
    )
    const receiver = await stage.receiver()
    const { id } = stage.subscribe(receiver.port)
    expect(user!.wanted()).toEqual([id])
    const part = shreds.length / 4
    const sendPart = (index: number) => stage!.send(shreds.slice(index * part, (index + 1) * part))
    // Another gateway holds it.
    await sendPart(0)
    expect(stage.totals().sent).toBe(0)
    held.add(id)
    user!.onDeadline(60_000)
    user!.onChanged(id)
    await stage.settled()
    await sendPart(1)
    await until(() => receiver.packets.length === part, 'the shreds of the holder')
    // Nobody renews: the worker stops although the main thread changes nothing.
    user!.onDeadline(0)
    await sendPart(2)
    // Duplicates: when they are counted, the batch before them is done with.
    await sendPart(2)
    user!.onDeadline(60_000)
    await sendPart(3)
    await until(() => receiver.packets.length === 2 * part, 'the shreds after the renewal')
    expect(asTexts(receiver.packets)).toEqual(
      asTexts([...shreds.slice(part, 2 * part), ...shreds.slice(3 * part, 4 * part)]),
    )
  })

  test('a pending destination receives only challenges; its echo activates it', async () => {
    stage = await ShredStage.open({ io })
    const silent = await stage.receiver()
    const { label } = stage.subscribe(silent.port, { isPending: true })
    await until(() => silent.packets.length > 0, 'a challenge')
    expect(silent.packets[0]!.toString('latin1')).toMatch(/^SLUICE1 [0-9a-f]{32}$/)
    await stage.send(shreds.slice(0, 64))
    await until(() => stage!.totals().accepted === 64, 'shreds accepted')
    // Wrong bytes, and the right ones from another port, prove nothing.
    silent.socket.send(Buffer.alloc(40), stage.product.sourcePort, '127.0.0.1')
    const other = await stage.receiver()
    other.socket.send(silent.packets[0]!, stage.product.sourcePort, '127.0.0.1')
    await until(() => silent.packets.length > 1, 'a second challenge')
    expect(new Set(silent.packets.map(String)).size).toBe(1)
    expect(stage.store.find(label)!.destination!.state).toBe('pending')
    silent.socket.send(silent.packets[0]!, stage.product.sourcePort, '127.0.0.1')
    await until(() => stage!.store.find(label)!.destination!.state === 'active', 'proven')
    const before = silent.packets.length
    await until(() => stage!.destinations()[0]?.state === 'active', 'served')
    await stage.settled()
    await stage.send(shreds.slice(64, 128))
    await until(() => silent.packets.length >= before + 64, 'shreds')
    await until(() => stage!.destinations()[0]!.packets === 64, 'counted')
    expect(stage.destinations()[0]).toMatchObject({ refused: 0, droppedCap: 0 })
  })

  test('junk at the source port does not keep an echo out', async () => {
    stage = await ShredStage.open({ io })
    const { sourcePort } = stage.product
    const noise = await stage.source('127.0.0.9')
    // More than the socket's buffer fits, before any challenge is pending.
    for (let round = 0; round < 400; round += 1) {
      for (let packet = 0; packet < 100; packet += 1)
        noise.send(Buffer.alloc(40), sourcePort, '127.0.0.1')
      await new Promise((resolve) => setImmediate(resolve))
    }
    const quiet = await stage.receiver()
    const { label } = stage.subscribe(quiet.port, { isPending: true })
    await until(() => quiet.packets.length > 0, 'a challenge')
    // One echo only, of the first challenge: it must be enough.
    quiet.socket.send(quiet.packets[0]!, sourcePort, '127.0.0.1')
    await until(() => stage!.store.find(label)!.destination!.state === 'active', 'proven')
  })

  test.skipIf(!hasIpv6)(
    'IPv6 destinations are challenged and served beside IPv4 ones',
    async () => {
      stage = await ShredStage.open({ io })
      const [v4, v6] = [await stage.receiver(), await stage.receiver({ isV6: true })]
      stage.subscribe(v4.port)
      const { label } = stage.subscribe(v6.port, { host: '[::1]', isPending: true })
      await until(() => v6.packets.length > 0, 'a challenge')
      v6.socket.send(v6.packets[0]!, stage.product.sourcePort, '::1')
      await until(() => stage!.store.find(label)!.destination!.state === 'active', 'proven')
      await stage.settled()
      await stage.send(shreds.slice(0, 128))
      const got = () => v6.packets.filter(({ length }) => length > 40)
      await until(() => got().length >= 128 && v4.packets.length >= 128, 'shreds on both')
      expect(asTexts(got())).toEqual(asTexts(shreds.slice(0, 128)))
      expect(asTexts(v4.packets)).toEqual(asTexts(shreds.slice(0, 128)))
    },
  )

  test('a closed port costs other destinations nothing, and is resumed when it opens', async () => {
    stage = await ShredStage.open({ io })
    const open = await stage.receiver()
    const closed = await stage.receiver()
    stage.subscribe(closed.port)
    stage.subscribe(open.port)
    await until(() => stage!.destinations().length === 2, 'destinations')
    await stage.settled()
    closed.socket.close()
    stage.forget(closed.socket)
    await stage.send(shreds.slice(0, 256), '127.0.0.1', 8)
    const stateOf = (port: number) =>
      stage!.destinations().find(({ address }) => address === `127.0.0.1:${port}`)!
    await until(() => Number(stateOf(closed.port).refused) >= 4, 'refusals')
    await until(() => open.packets.length >= 256, 'the other destination received all shreds')
    expect(asTexts(open.packets)).toEqual(asTexts(shreds.slice(0, 256)))
    const back = await stage.receiver({ port: closed.port })
    let next = 256
    await until(async () => {
      await stage!.send(shreds.slice(next, next + 1))
      next += 1
      return back.packets.length > 0 || next >= shreds.length
    }, 'shreds resumed')
    expect(back.packets.length).toBeGreaterThan(0)
  })
})

test('shreds for a destination of a family without a socket are counted as errors', async () => {
  stage = await ShredStage.open({ io: 'batch', sourceHost: '127.0.0.1' })
  const v4 = await stage.receiver()
  stage.subscribe(v4.port)
  const { label } = stage.subscribe(v4.port, { host: '[::1]' })
  await until(() => stage!.destinations().length === 2, 'destinations')
  await stage.settled()
  const count = 128
  await stage.send(shreds.slice(0, count))
  const row = () => stage!.destinations().find((one) => one.label === label)!
  await until(() => v4.packets.length === count, 'shreds')
  await until(() => Number(row().droppedError) + Number(row().packets) === count, 'its counters')
  expect(row()).toMatchObject({ packets: 0, lastSentMs: 0, lastErrno: unsupportedFamily })
  await until(() => stage!.totals().sent === count, 'counted as sent')
  expect(stage.totals().error).toBe(count)
})

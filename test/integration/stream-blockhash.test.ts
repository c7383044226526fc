// What the stream of a set knows of a blockhash, on which resends of transactions depend.
import { afterEach, beforeEach, expect, it } from 'vitest'
import { decodeKey } from '../../src/chain/solana/base58.ts'
import { RelayStage } from '../testkit/geyser-relay.ts'
import { GrpcStage } from '../testkit/grpc-stage.ts'
import { SyntheticSolana } from '../testkit/synthetic-solana.ts'
import { until } from '../testkit/until.ts'

let node: GrpcStage
let relay: RelayStage
beforeEach(async () => {
  node = await GrpcStage.open()
  relay = await RelayStage.before(node)
})
afterEach(async () => {
  await relay.close()
  await node.close()
})

/** A blockhash of a confirmed block, and the newest slot. */
async function grown() {
  const chain = new SyntheticSolana()
  const updates = Array.from({ length: 8 }, () => chain.next()).flat()
  node.publish(updates)
  await relay.caughtUp(updates)
  const first = updates.find((update) => update.kind === 'blockMeta')!
  const blockhash = decodeKey(first.blockhash)!
  const isValid = () => relay.road.isBlockhashValid(blockhash)
  await until(() => isValid() === true, 'a confirmed block')
  return { isValid, slot: relay.road.slot(0) }
}

it('is unknown while the stream is closed: what was valid expires unseen', async () => {
  const { isValid } = await grown()
  await node.running.stop()
  await until(() => isValid() === null, 'the stream to be closed')
})

it('is unknown while the stream stalls and its nodes go on', async () => {
  const { isValid, slot } = await grown()
  relay.reachSlot(slot + 100)
  expect(isValid()).toBe(null)
})

// JSON-RPC of the devnode where a validator's exact fields, texts and codes matter.
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { Keypair } from '@solana/web3.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import { newestShapes } from '../../src/chain/solana/version.ts'
import { type Devnode, startDevnode } from '../testkit/devnode.ts'
import type { RpcAnswer } from '../testkit/solana-node.ts'
import { until } from '../testkit/until.ts'

let devnode: Devnode

beforeAll(async () => {
  devnode = await startDevnode()
})
afterAll(() => devnode?.dispose())

/** `params` is JSON text, so that a test chooses how numbers are written. */
async function call(method: string, params: string): Promise<RpcAnswer> {
  return (await (await post(method, params)).json()) as RpcAnswer
}

function post(method: string, params: string): Promise<Response> {
  return fetch(devnode.url('rpc'), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: `{"jsonrpc":"2.0","id":1,"method":"${method}","params":${params}}`,
  })
}

describe('the supply', () => {
  it('lists the accounts that a validator never counts as circulating', async () => {
    const { value } = (await call('getSupply', '[{"commitment":"processed"}]')).result
    expect(value.nonCirculatingAccounts).toHaveLength(110)
    expect(value.nonCirculatingAccounts).toContain('9huDUZfxoJ7wGMTffUE7vh1xePqef7gyrLJu9NApncqA')
    const short = '[{"excludeNonCirculatingAccountsList":true}]'
    expect((await call('getSupply', short)).result.value.nonCirculatingAccounts).toEqual([])
    const locked = '[{"filter":"nonCirculating","commitment":"processed"}]'
    expect((await call('getLargestAccounts', locked)).result.value).toEqual([])
    await call('requestAirdrop', '["9huDUZfxoJ7wGMTffUE7vh1xePqef7gyrLJu9NApncqA",5000000000]')
    const after = (await call('getSupply', '[{"commitment":"processed"}]')).result.value
    expect(after.nonCirculating).toBe(5_000_000_000)
    expect(after.circulating).toBe(after.total - 5_000_000_000)
    expect((await call('getLargestAccounts', locked)).result.value).toEqual([
      { address: '9huDUZfxoJ7wGMTffUE7vh1xePqef7gyrLJu9NApncqA', lamports: 5_000_000_000 },
    ])
  })

  it('is told in SOL by GET /v0/total-supply and /v0/circulating-supply', async () => {
    const supply = async () => (await call('getSupply', '[]')).result.value
    const texts = () =>
      Promise.all(
        ['total', 'circulating'].map(async (kind) => {
          const response = await fetch(`${devnode.url('rpc')}/v0/${kind}-supply`)
          expect(response.status).toBe(200)
          return response.text()
        }),
      )
    let [before, shown, after] = [await supply(), await texts(), await supply()]
    // A block that becomes final in between changes both.
    while (before.circulating !== after.circulating)
      [before, shown, after] = [after, await texts(), await supply()]
    expect(shown.map(Number)).toEqual([after.total / 1e9, after.circulating / 1e9])
    for (const text of shown) expect(text).toMatch(/^\d+(\.\d{0,8}[1-9])?$/)
  })
})

it('describes itself as a validator does, with addresses where it listens', async () => {
  const [node] = (await call('getClusterNodes', '[]')).result
  const rpc = new URL(devnode.url('rpc')).host
  const pubsub = new URL(devnode.url('websocket')).host
  const { 'feature-set': featureSet } = (await call('getVersion', '[]')).result
  expect(featureSet).toBeGreaterThan(0)
  const { identity } = (await call('getIdentity', '[]')).result
  const udp = node.gossip
  expect(udp).toMatch(/^127\.0\.0\.1:\d+$/)
  expect(node).toEqual({
    clientId: 'Agave',
    featureSet,
    gossip: udp,
    pubkey: identity,
    pubsub,
    rpc,
    serveRepair: udp,
    shredVersion: 1,
    tpu: null,
    tpuForwards: null,
    tpuForwardsQuic: udp,
    tpuQuic: udp,
    tpuVote: udp,
    tvu: udp,
    version: newestShapes.release['solana-core'],
  })
})

it('refuses a QUIC connection at once, so that a client sends over JSON-RPC', async () => {
  const [{ tpuQuic }] = (await call('getClusterNodes', '[]')).result
  const socket = createSocket('udp4')
  try {
    const answer = once(socket, 'message')
    const packet = Buffer.alloc(1200)
    packet.set([0xc0, 0, 0, 0, 1, 1, 7, 1, 9])
    socket.send(packet, Number(tpuQuic.split(':')[1]), '127.0.0.1')
    expect((await answer)[0].toString('hex')).toBe('8000000000010901071a2a3a4a')
  } finally {
    socket.close()
  }
})

it('keeps every digit of 64-bit integers in cheat codes', async () => {
  const key = Keypair.generate().publicKey.toBase58()
  const change = '{"lamports":9007199254740993,"rentEpoch":18446744073709551615}'
  expect((await call('surfnet_setAccount', `["${key}",${change}]`)).error).toBeUndefined()
  const response = await post('getAccountInfo', `["${key}",{"commitment":"processed"}]`)
  const text = await response.text()
  expect(text).toContain('"lamports":9007199254740993,')
  expect(text).toContain('"rentEpoch":18446744073709551615,')
})

describe('the history', () => {
  const key = Keypair.generate().publicKey.toBase58()
  const confirmed = { commitment: 'confirmed' }
  const ask = (method: string, ...params: unknown[]) => call(method, JSON.stringify(params))

  it('numbers transactions inside their block', async () => {
    const airdrops = [1, 2, 3].map((lamports) => ask('requestAirdrop', key, 1e9 + lamports))
    for (const airdrop of airdrops) expect((await airdrop).error).toBeUndefined()
    const list = async () => (await ask('getSignaturesForAddress', key, confirmed)).result
    await until(async () => (await list()).length === 3, 'three transactions')
    for (const { signature, slot, transactionIndex } of await list()) {
      const block = await ask('getBlock', slot, { ...confirmed, transactionDetails: 'signatures' })
      expect(block.result.signatures[transactionIndex]).toBe(signature)
      const found = await ask('getTransaction', signature, confirmed)
      expect(found.result.transactionIndex).toBe(transactionIndex)
    }
  })

  it('refuses to page from a transaction that it does not have', async () => {
    const [{ signature: known }] = (await ask('getSignaturesForAddress', key, confirmed)).result
    const signature = encodeBase58(new Uint8Array(64).fill(9))
    const error = { code: -32020, message: `Transaction ${signature} not found` }
    const page = (range: object) => ask('getSignaturesForAddress', key, { ...confirmed, ...range })
    expect((await page({ before: signature })).error).toEqual(error)
    expect((await page({ until: signature })).error).toEqual(error)
    expect((await page({ before: known, until: signature })).error).toEqual(error)
    expect((await page({ before: known })).result).toHaveLength(2)
    expect((await page({ until: known })).result).toEqual([])
  })
})

describe('errors of a validator', () => {
  const key = '"9huDUZfxoJ7wGMTffUE7vh1xePqef7gyrLJu9NApncqA"'
  const token = '"TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"'
  const base64 = '{"encoding":"base64"}'
  // One signature, then a message of version 126.
  const unknownVersion = Buffer.alloc(200, 0)
  unknownVersion[0] = 1
  unknownVersion[65] = 0x80 | 126

  it.each([
    [
      'getBlockTime',
      '[9223372036854775807]',
      -32004,
      'Block not available for slot 9223372036854775807',
    ],
    [
      'getBlock',
      '[9223372036854775807]',
      -32004,
      'Block not available for slot 9223372036854775807',
    ],
    [
      'getBlockProduction',
      '[{"range":{"firstSlot":9223372036854775807}}]',
      -32602,
      /^lastSlot, \d+, cannot be less than firstSlot, 9223372036854775807$/,
    ],
    [
      'getBlockProduction',
      '[{"range":{"firstSlot":0,"lastSlot":9223372036854775807}}]',
      -32602,
      /^lastSlot, 9223372036854775807, is too large; max \d+$/,
    ],
    ['getBlockProduction', '[{"range":{}}]', -32602, 'Invalid params: missing field `firstSlot`.'],
    [
      'getSlotLeaders',
      '[9223372036854775807,3]',
      -32602,
      'Invalid slot range: leader schedule for epoch 21350398233460 is unavailable',
    ],
    [
      'getSlotLeaders',
      '[863990,11]',
      -32602,
      'Invalid slot range: leader schedule for epoch 2 is unavailable',
    ],
    [
      'getBlockTime',
      '[18446744073709551616]',
      -32602,
      'Invalid params: invalid type: floating point `18446744073709552000.0`, expected u64.',
    ],
    ['getTokenSupply', `[${key},{}]`, -32602, 'Invalid params: missing field `commitment`.'],
    ['getInflationGovernor', '[{}]', -32602, 'Invalid params: missing field `commitment`.'],
    [
      'getSignatureStatuses',
      '[[],{}]',
      -32602,
      'Invalid params: missing field `searchTransactionHistory`.',
    ],
    ['getMinimumBalanceForRentExemption', '[10485761]', -32600, 'Invalid request'],
    ['getInflationReward', '[[]]', -32004, 'Block not available for slot 432000'],
    [
      'getInflationReward',
      '[[],{"epoch":9223372036854775807}]',
      -32004,
      'Block not available for slot 18446744073709551615',
    ],
    [
      'getFeeForMessage',
      '["someInvalidMessage"]',
      -32602,
      'invalid base64 encoding: InvalidPadding',
    ],
    [
      'getFeeForMessage',
      `["${'A'.repeat(1648)}"]`,
      -32602,
      'base64 encoded solana_message::versions::VersionedMessage too large: 1648 bytes ' +
        '(max: encoded/raw 1644/1232)',
    ],
    [
      'getFeeForMessage',
      '["AQAB"]',
      -32602,
      'failed to deserialize solana_message::versions::VersionedMessage: ' +
        'io error: failed to fill whole buffer',
    ],
    [
      'getFeeForMessage',
      `["${Buffer.concat([Uint8Array.of(1, 1, 0, 1), new Uint8Array(65)]).toString('base64')}"]`,
      -32602,
      'invalid transaction message: index out of bounds',
    ],
    ['sendTransaction', `["!",${base64}]`, -32602, 'invalid base64 encoding: InvalidByte(0, 33)'],
    [
      'sendTransaction',
      '["0"]',
      -32602,
      "invalid base58 encoding: InvalidCharacter { character: '0', index: 0 }",
    ],
    [
      'simulateTransaction',
      `["${unknownVersion.toString('base64')}",${base64}]`,
      -32602,
      'failed to deserialize solana_transaction::versioned::VersionedTransaction: ' +
        'invalid value: integer `126`, expected a valid transaction message version',
    ],
    [
      'getProgramAccounts',
      `[${token},{"filters":[{"memcmp":{"offset":32,"bytes":"11"}}]}]`,
      -32602,
      'Incorrect byte length 2 for SPL token owner filter, expected 32',
    ],
    [
      'getTokenAccountsByOwner',
      `[${key},{}]`,
      -32602,
      'Invalid params: invalid value: map, expected map with a single key.',
    ],
    [
      'getTransaction',
      `["${'1'.repeat(64)}","bogus"]`,
      -32602,
      'Invalid params: data did not match any variant of untagged enum RpcEncodingConfigWrapper.',
    ],
    ['isBlockhashValid', '["1"]', -32602, 'WrongSize'],
  ])('%s %s', async (method, params, code, message) => {
    const { error } = await call(method, params)
    expect(error?.code).toBe(code)
    if (typeof message === 'string') expect(error?.message).toBe(message)
    else expect(error?.message).toMatch(message)
  })

  it('takes a bare encoding in getBlock', async () => {
    const { result } = await call('getBlock', '[0,"base64"]')
    expect(result.transactions).toEqual([])
    expect((await call('getBlock', '[0,"jsonParsed"]')).error).toBeUndefined()
  })

  it('takes calls on every path by POST alone', async () => {
    const call = { method: 'POST', headers: { 'content-type': 'application/json' } }
    const body = '{"jsonrpc":"2.0","id":1,"method":"getHealth"}'
    const posted = await fetch(`${devnode.url('rpc')}/rpc/v1`, { ...call, body })
    expect(await posted.json()).toEqual({ jsonrpc: '2.0', result: 'ok', id: 1 })
    for (const path of ['/', '/rpc/v1']) {
      const got = await fetch(`${devnode.url('rpc')}${path}`)
      expect([got.status, await got.text()]).toEqual([
        405,
        'Used HTTP Method is not allowed. POST or OPTIONS is required\n',
      ])
    }
  })
})

// The TPU Sender on the embedded chain, called by kit and by plain HTTP.
import { createSolanaRpc, type KeyPairSigner } from '@solana/kit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { decodeBase58, decodeKey, encodeBase58 } from '../../src/chain/solana/base58.ts'
import { good } from '../testkit/chain-stage.ts'
import { expectShape } from '../testkit/golden.ts'
import { sendRaw } from '../testkit/raw-http.ts'
import {
  innerTransfer,
  newAddress,
  newPayer,
  sign,
  transfer,
  transferWithSeed,
} from '../testkit/tipped.ts'
import { TpuStage } from '../testkit/tpu-stage.ts'
import { until } from '../testkit/until.ts'

const stage = new TpuStage()
let payer: KeyPairSigner
let tipAccount = ''
beforeAll(async () => {
  await stage.start()
  payer = await funded()
  tipAccount = stage.tpu.tipAccounts()[3]!
})
afterAll(() => stage.dispose())

async function funded(): Promise<KeyPairSigner> {
  const signer = await newPayer()
  good(await stage.chain.chain.requestAirdrop(decodeKey(signer.address)!, 100_000_000_000n))
  return signer
}

const balance = (account: string) =>
  stage.chain.chain.ledger.account(decodeKey(account)!, 0)?.lamports ?? 0n
const newest = () => stage.chain.chain.ledger.latestBlockhash(0).blockhash
let serial = 0n

/** A transfer with a tip, unique in the test. */
function tipped(lamports = 1_000_000n, from = payer) {
  const instructions = [
    transfer({ from, to: newAddress(), lamports: 1_000_000n + serial++ }),
    transfer({ from, to: tipAccount, lamports }),
  ]
  return sign(from, instructions, { blockhash: newest() })
}

const raw = (bytes: Uint8Array, path = '/api/v1/transactions') =>
  stage.post(path, 'application/octet-stream', bytes)
const counted = () => {
  const { accepted, landed, expired, failed } = stage.tpu.report(0)
  return { accepted, landed, expired, failed }
}

async function allEnded(): Promise<void> {
  await until(() => {
    const { accepted, landed, expired, failed } = counted()
    return accepted === landed + expired + failed
  }, 'all to end')
}

describe('a transaction with a tip of exactly 1,000,000 lamports', () => {
  it('sent by kit is accepted, executed, and its tip is paid', async () => {
    const before = balance(tipAccount)
    const bytes = await tipped()
    const rpc = createSolanaRpc(stage.url)
    const wire = Buffer.from(bytes).toString('base64')
    const signature = await rpc.sendTransaction(wire as never, { encoding: 'base64' }).send()
    expect(signature).toBe(encodeBase58(bytes, 1, 65))
    await until(() => stage.tpu.report(1).landed === 1, 'it to land')
    expect(balance(tipAccount) - before).toBe(1_000_000n)
    const status = stage.chain.chain.ledger.signatureStatus(decodeBase58(signature)!)
    expect(status).toMatchObject({ err: null })
    // The same transaction on the hub, which websocket and grpc listen to.
    const seen = stage.chain.told.find(
      (update) => update.kind === 'transaction' && encodeBase58(update.signature) === signature,
    )
    expect(seen).toMatchObject({ slot: status!.slot, err: null })
    expect(stage.tpu.report(1).last).toEqual([
      {
        receivedAtMs: expect.any(Number),
        signature,
        feePayer: payer.address,
        tipAccount,
        lamports: '1000000',
        outcome: 'landed',
        reason: '',
        landedSlot: status!.slot,
      },
    ])
  })

  it('is accepted on every path and in every encoding', async () => {
    const answers = []
    const legacy = await sign(
      payer,
      [transfer({ from: payer, to: tipAccount, lamports: 1_000_001n })],
      { blockhash: newest(), version: 'legacy' },
    )
    const first = await tipped()
    answers.push((await stage.send(legacy)).json.result === encodeBase58(legacy, 1, 65))
    // Without an encoding the text is base58.
    const sent = await stage.call('sendTransaction', [encodeBase58(first)], '/fast')
    answers.push(sent.json.result === encodeBase58(first, 1, 65))
    const second = await tipped()
    expect((await raw(second)).json).toEqual({ signature: encodeBase58(second, 1, 65) })
    const third = await tipped()
    const text = Buffer.from(third).toString('base64')
    const plain = await stage.post('/api/v1/transactions', 'text/plain; charset=utf-8', `${text}\n`)
    expect(plain).toMatchObject({ status: 200, json: { signature: encodeBase58(third, 1, 65) } })
    expectShape('tpu/signature', plain.json)
    expectShape('tpu/send-transaction', sent.json)
    expect(answers).toEqual([true, true])
    await until(() => stage.tpu.report(0).landed === 5, 'all to land')
  })

  it('is answered by a batch in order, each item on its own', async () => {
    const bytes = await Promise.all([tipped(), sign(payer, []), tipped(999_999n), tipped()])
    bytes.push(Uint8Array.of(1, 2, 3), Uint8Array.of())
    const frame = (item: Uint8Array) => [item.length >> 8, item.length & 255, ...item]
    const { status, json } = await raw(Uint8Array.from(bytes.flatMap(frame)), '/batch')
    expect(status).toBe(200)
    expect(json[0]).toEqual({ signature: encodeBase58(bytes[0]!, 1, 65) })
    expect(json[1].error.data.reason).toBe('TIP_MISSING')
    expect(json[2].error.data).toEqual({
      reason: 'TIP_TOO_LOW',
      requiredLamports: 1_000_000,
      foundLamports: 999_999,
    })
    expect(json[3]).toEqual({ signature: encodeBase58(bytes[3]!, 1, 65) })
    expect(json[4].error.data.reason).toBe('MALFORMED')
    expect(json[5].error.data.reason).toBe('MALFORMED')
    expectShape('tpu/batch', json)
    const bad = [Uint8Array.of(), Uint8Array.of(0), Uint8Array.of(0, 9, 1)]
    bad.push(Uint8Array.from(Array.from({ length: 17 }, () => [0, 1, 1]).flat()))
    for (const body of bad)
      expect(await raw(body, '/batch')).toMatchObject({
        status: 400,
        json: { error: { code: -32602, data: { reason: 'BAD_ENCODING' } } },
      })
  })
})

describe('a transaction with others pipelined after it in one packet', () => {
  it('is sent, though the native server closes its connection', async () => {
    const before = counted().landed
    const { port } = new URL(stage.url)
    const post = (bytes: Uint8Array) => {
      const head = `host: a\r\ncontent-type: application/octet-stream`
      const lines = `POST /api/v1/transactions HTTP/1.1\r\n${head}\r\ncontent-length: ${bytes.length}`
      return Buffer.concat([Buffer.from(`${lines}\r\n\r\n`), bytes])
    }
    const all = [await tipped(), await tipped(), await tipped()]
    const { isClosed } = await sendRaw(Number(port), Buffer.concat(all.map(post)), { answers: 3 })
    expect(isClosed).toBe(true)
    const status = () => stage.chain.chain.ledger.signatureStatus(all[0]!.subarray(1, 65))
    await until(() => status() !== null, 'the first one to run')
    expect(status()).toMatchObject({ err: null })
    await until(() => counted().landed > before, 'the first one to land')
  })
})

describe('a transaction without a good tip', () => {
  it('is rejected with its reason, on JSON-RPC with 200 and on raw paths with 400', async () => {
    const cases: [string, number, Uint8Array][] = [
      ['TIP_TOO_LOW', 999_999, await tipped(999_999n)],
      ['TIP_MISSING', 0, await sign(payer, [])],
      ['TIP_MISSING', 0, await sign(payer, [innerTransfer(payer, tipAccount)])],
      ['TIP_TOO_LOW', 9, await sign(payer, [transferWithSeed(payer, tipAccount, 9n)])],
    ]
    const add = async (reason: string, found: number, ...all: ReturnType<typeof transfer>[]) =>
      cases.push([reason, found, await sign(payer, all)])
    const tip = { from: payer, to: tipAccount, lamports: 2_000_000n }
    await add('TIP_ACCOUNT_NOT_WRITABLE', 2_000_000, transfer({ ...tip, isReadonly: true }))
    await add('TIP_SOURCE_NOT_SIGNER', 2_000_000, transfer({ ...tip, from: newAddress() }))
    await add('TIP_VIA_LOOKUP_TABLE', 2_000_000, transfer({ ...tip, table: newAddress() }))
    const half = { ...tip, lamports: 500_000n }
    await add('TIP_TOO_LOW', 500_000, transfer(half), transfer(half))
    // What earlier tests sent lands when it is confirmed.
    const isOver = ({ accepted, landed, expired, failed } = counted()) =>
      accepted === landed + expired + failed
    await until(isOver, 'all that was accepted to land')
    const before = counted()
    for (const [reason, foundLamports, bytes] of cases) {
      const data = { reason, requiredLamports: 1_000_000, foundLamports }
      const error = { code: -32602, message: expect.any(String), data }
      const answer = await stage.send(bytes)
      expect(answer).toMatchObject({ status: 200, json: { jsonrpc: '2.0', id: 7, error } })
      expectShape('tpu/rejected', answer.json)
      const plain = await raw(bytes)
      expect(plain).toMatchObject({ status: 400, json: { error } })
      expectShape('tpu/rejected-raw', plain.json)
      const checked = await raw(bytes, '/check')
      expect(checked).toMatchObject({
        status: 200,
        json: { accepted: false, ...data, signature: encodeBase58(bytes, 1, 65) },
      })
    }
    expect(counted()).toEqual(before)
  })
})

describe('errors', () => {
  const codeOf = async (answer: Promise<{ json: { error?: { code: number } } }>) =>
    (await answer).json.error?.code

  it('have the codes that Solana clients expect', async () => {
    const bytes = await tipped()
    const forged = Uint8Array.from(bytes)
    forged[20]! ^= 4
    expect(await codeOf(stage.send(forged))).toBe(-32003)
    expect(await raw(forged)).toMatchObject({ status: 400, json: { error: { code: -32003 } } })
    const twice = Uint8Array.from([2, ...bytes.slice(1, 65), ...bytes.slice(1)])
    expect(await codeOf(stage.send(twice))).toBe(-32013)
    const version1 = Uint8Array.from(bytes)
    version1[65] = 0x81
    expect(await codeOf(stage.send(version1))).toBe(-32015)
    expect(await codeOf(stage.send(Uint8Array.from([...bytes, 0])))).toBe(-32602)
    expect(await codeOf(stage.send(new Uint8Array(1_233)))).toBe(-32602)
    expect(await codeOf(stage.send(bytes, { skipPreflight: false }))).toBe(-32602)
    expect(await codeOf(stage.send(bytes, { encoding: 'hex' }))).toBe(-32602)
    expect(await codeOf(stage.call('sendTransaction', ['not base58!']))).toBe(-32602)
    expect(await codeOf(stage.call('sendTransaction', []))).toBe(-32602)
    expect(await codeOf(stage.call('getBalance'))).toBe(-32601)
    expect((await raw(new Uint8Array(1_233))).json.error.data).toEqual({ reason: 'TOO_LARGE' })
    const texts = ['AAAA-_==', 'AA\nAA', 'A', 'QR==']
    for (const text of texts)
      expect(await stage.post('/api/v1/transactions', 'text/plain', text)).toMatchObject({
        status: 400,
        json: { error: { data: { reason: 'BAD_ENCODING' } } },
      })
    expect((await stage.send(bytes, { skipPreflight: true, maxRetries: 0 })).status).toBe(200)
  })

  it('of the listener are JSON', async () => {
    expect((await raw(Uint8Array.of(), '/nowhere')).status).toBe(404)
    expect((await raw(Uint8Array.of(1), '/')).status).toBe(415)
    expect((await stage.post('/batch', 'text/plain', 'x')).status).toBe(415)
    expect((await raw(new Uint8Array(9_000))).status).toBe(413)
    const wrong = await fetch(`${stage.url}/batch`)
    expect([wrong.status, wrong.headers.get('allow')]).toEqual([405, 'POST, OPTIONS'])
    const { headers } = await fetch(stage.url, { method: 'OPTIONS' })
    // Also of the token of a dedicated node.
    expect(headers.get('access-control-allow-headers')).toContain('x-token, authorization')
    expectShape('tpu/unknown-path', (await raw(Uint8Array.of(), '/nowhere')).json)
  })
})

describe('beside submission', () => {
  it('serves its tip accounts, health and version', async () => {
    const get = (path: string) => fetch(`${stage.url}${path}`)
    expect(await (await get('/ping')).text()).toBe('pong')
    const accounts = (await (await get('/tip-accounts')).json()) as { tipAccounts: string[] }
    expect(accounts).toEqual({ tipAccounts: stage.tpu.tipAccounts() })
    expectShape('tpu/tip-accounts', accounts)
    expect(accounts.tipAccounts).toHaveLength(8)
    const health = await get('/health')
    expect([health.status, await health.json()]).toEqual([200, { status: 'ok' }])
    expect((await stage.call('getTipAccounts')).json.result).toEqual(accounts.tipAccounts)
    expect((await stage.call('getHealth')).json.result).toBe('ok')
    expect((await stage.call('getVersion')).json.result).toMatchObject({ 'solana-core': '4.0.0' })
  })

  it('checks a draft without counting or sending it', async () => {
    await allEnded()
    const before = stage.tpu.report(0)
    const bytes = await tipped()
    const wire = Buffer.from(bytes).toString('base64')
    const call = {
      jsonrpc: '2.0',
      id: 1,
      method: 'sendTransaction',
      params: [wire, { encoding: 'base64' }],
    }
    const answers = [
      await raw(bytes, '/check'),
      await stage.post('/check', 'text/plain', wire),
      await stage.post('/check', 'application/json', JSON.stringify(call)),
    ]
    for (const { status, json } of answers) {
      expect([status, json.accepted, json.foundLamports]).toEqual([200, true, 1_000_000])
      expectShape('tpu/check', json)
    }
    expect((await stage.post('/check', 'application/json', '{')).json.accepted).toBe(false)
    expect(stage.tpu.report(0)).toEqual(before)
  })

  it('reloads tip accounts while it runs', async () => {
    const bytes = await tipped()
    const mine = stage.tpu.tipAccounts()
    stage.tpu.changeTipAccounts([newAddress()])
    expect((await raw(bytes)).json.error.data.reason).toBe('TIP_MISSING')
    stage.tpu.changeTipAccounts(mine)
    expect((await raw(bytes)).status).toBe(200)
  })
})

describe('limits', () => {
  it('forward the same transaction once, and answer 429 when the burst is used up', async () => {
    const before = stage.tpu.report(0)
    const bytes = await tipped()
    const answers = await Promise.all(Array.from({ length: 200 }, () => raw(bytes)))
    expect(answers.every(({ status }) => status === 200)).toBe(true)
    expect(stage.tpu.report(0).accepted - before.accepted).toBe(1)
    expect(stage.tpu.report(0).duplicates - before.duplicates).toBe(199)
    // Fresh payers, so that only the address is over its rate.
    const forged = await Promise.all(
      Array.from({ length: 250 }, async () => {
        const one = Uint8Array.from(bytes)
        crypto.getRandomValues(one.subarray(1, 65))
        return one
      }),
    )
    // Where they take seconds, the address has its rate back meanwhile.
    let refused: Awaited<ReturnType<typeof stage.send>> | undefined
    while (refused === undefined) {
      const later = await Promise.all(forged.map((one) => stage.send(one)))
      refused = later.find(({ status }) => status === 429)
    }
    expect(refused.json.error).toMatchObject({ code: -32429, data: { reason: 'ADDRESS_RATE' } })
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    expectShape('tpu/rate', refused.json)
    expect((await raw(bytes)).status).toBe(200)
  })

  it('do not lose any accepted submission: each one ends', async () => {
    await allEnded()
  })
})

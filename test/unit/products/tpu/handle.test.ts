// The TPU Sender's handler without sockets: order of checks, duplicates, rates, forgeries.
import type { KeyPairSigner } from '@solana/kit'
import { beforeEach, describe, expect, it } from 'vitest'
import { accept } from '../../../../src/base/errors.ts'
import { Meters } from '../../../../src/base/telemetry/meters.ts'
import { decodeKey, encodeBase58 } from '../../../../src/chain/solana/base58.ts'
import { Keypair } from '../../../../src/chain/solana/keypair.ts'
import { Verifier } from '../../../../src/chain/solana/verify.ts'
import { Forwarder, TipLog } from '../../../../src/products/tpu/forward.ts'
import { TpuHandler } from '../../../../src/products/tpu/handle.ts'
import { declareTpuMeters } from '../../../../src/products/tpu/meters.ts'
import { TipAccounts } from '../../../../src/products/tpu/tip.ts'
import { FakeClock, FakeSender, notTaken, unreachable } from '../../../testkit/fake-senders.ts'
import { newAddress, newPayer, sign, transfer } from '../../../testkit/tipped.ts'
import { v1Transaction } from '../../../testkit/transaction-v1.ts'

const accounts = new TipAccounts(Array.from({ length: 8 }, newAddress))

function stage() {
  const clock = new FakeClock()
  const upstream = new FakeSender()
  const meters = declareTpuMeters(new Meters())
  const tips = new TipLog()
  const forwarder = new Forwarder({
    senders: [upstream],
    hub: null,
    slot: () => null,
    isBlockhashValid: () => null,
    whenDown: 'refuse',
    wait: false,
    meters,
    tips,
    clock,
  })
  const verifier = new Verifier()
  const verified: Uint8Array[] = []
  const handler = new TpuHandler({
    accounts,
    verifier: {
      async verify(bytes) {
        verified.push(bytes)
        return accept(verifier.verify(bytes))
      },
    },
    forwarder,
    meters,
    tips,
    clock,
  })
  const submit = async (bytes: Uint8Array, address = '10.0.0.1', maxRetries?: number) => {
    const outcome = await handler.submit(bytes, { address, beganMs: clock.ms }, maxRetries)
    return outcome.ok ? outcome.value : outcome.refusal.code
  }
  return { clock, upstream, meters, tips, handler, submit, verified }
}

let payer: KeyPairSigner
let count = 1_000_000n
beforeEach(async () => {
  payer = await newPayer()
})

/** A new transaction each time: the tips differ. */
const tipped = (from = payer) =>
  sign(from, [transfer({ from, to: accounts.texts[0]!, lamports: count++ })])

describe('a submission', () => {
  it('with a good tip and good signatures is forwarded byte for byte', async () => {
    const { submit, upstream, meters } = stage()
    const bytes = await tipped()
    expect(await submit(bytes)).toBe(encodeBase58(bytes, 1, 65))
    expect(upstream.sent).toEqual([bytes])
    expect(meters.accepted.value).toBe(1)
  })

  it('of version 1 is taken up to 4,096 bytes, with its signatures and tip checked', async () => {
    const { submit, upstream } = stage()
    const signer = Keypair.derive(new Uint8Array(32), 'payer')
    const lamports = Buffer.alloc(12)
    lamports.writeUInt32LE(2)
    lamports.writeBigUInt64LE(2_000_000n, 4)
    const withMemo = (memoBytes: number) =>
      v1Transaction({
        signers: [signer],
        writable: [decodeKey(accounts.texts[3]!)!],
        readonly: [new Uint8Array(32), new Uint8Array(32).fill(9)],
        blockhash: new Uint8Array(32).fill(7),
        instructions: [
          { program: 2, accounts: [0, 1], data: lamports },
          { program: 3, accounts: [], data: Buffer.alloc(memoBytes, 'm') },
        ],
      })
    const overhead = withMemo(0).length
    const longest = withMemo(4_096 - overhead)
    expect(await submit(longest)).toBe(encodeBase58(longest, longest.length - 64))
    expect(upstream.sent.map((sent) => Buffer.from(sent))).toEqual([longest])
    expect(await submit(withMemo(4_097 - overhead))).toBe('TOO_LARGE')
    const forged = Uint8Array.from(withMemo(9))
    forged[forged.length - 1]! ^= 1
    expect(await submit(forged)).toBe('BAD_SIGNATURE')
  })

  it('is refused in the order size, decoding, tip, before any expensive check', async () => {
    const { submit, verified, meters } = stage()
    expect(await submit(new Uint8Array(1_233))).toBe('TOO_LARGE')
    expect(await submit(new Uint8Array(0))).toBe('MALFORMED')
    const bytes = await tipped()
    expect(await submit(Uint8Array.from([...bytes, 0]))).toBe('MALFORMED')
    expect(await submit(Uint8Array.of(0x82, 1, 2))).toBe('UNSUPPORTED_VERSION')
    expect(await submit(Uint8Array.from([2, ...bytes.slice(1, 65), ...bytes.slice(1)]))).toBe(
      'SIGNATURE_COUNT',
    )
    expect(await submit(await sign(payer, []))).toBe('TIP_MISSING')
    expect(verified).toHaveLength(0)
    expect(Object.fromEntries(meters.rejected.read())).toMatchObject({
      TOO_LARGE: 1,
      MALFORMED: 2,
      UNSUPPORTED_VERSION: 1,
      SIGNATURE_COUNT: 1,
      TIP_MISSING: 1,
    })
  })

  it('that is sent a thousand times is verified and forwarded once', async () => {
    const { submit, upstream, meters, verified } = stage()
    const bytes = await tipped()
    const answers = await Promise.all(Array.from({ length: 500 }, () => submit(bytes)))
    for (let times = 0; times < 500; times++) answers.push(await submit(bytes))
    expect(new Set(answers)).toEqual(new Set([encodeBase58(bytes, 1, 65)]))
    expect(upstream.sent).toHaveLength(1)
    expect(verified).toHaveLength(1)
    expect(meters.duplicates.value).toBe(999)
  })

  it('that reached no upstream is forwarded when its sender submits it again', async () => {
    const { submit, upstream, meters } = stage()
    const bytes = await tipped()
    const signature = encodeBase58(bytes, 1, 65)
    for (const word of [unreachable, notTaken, accept(null)]) {
      upstream.word = word
      expect(await submit(bytes, '10.0.0.1', 0)).toBe(signature)
      await new Promise((resolve) => setImmediate(resolve))
    }
    expect(await submit(bytes, '10.0.0.1', 0)).toBe(signature)
    expect(upstream.sent).toHaveLength(3)
    expect(meters.duplicates.value).toBe(1)
  })

  it('is no longer a duplicate after two minutes', async () => {
    const { submit, clock, upstream, meters } = stage()
    const bytes = await tipped()
    await submit(bytes)
    clock.ms += 120_000
    await submit(bytes)
    // The first is still in flight, so the second is not sent as well.
    expect(upstream.sent).toHaveLength(1)
    expect(meters.duplicates.value).toBe(1)
  })

  it('with a bad signature is never forwarded, and not recorded as a duplicate', async () => {
    const { submit, upstream } = stage()
    const bytes = await tipped()
    const forged = Uint8Array.from(bytes)
    forged[10]! ^= 1
    expect(await submit(forged)).toBe('BAD_SIGNATURE')
    expect(await submit(forged)).toBe('BAD_SIGNATURE')
    expect(upstream.sent).toHaveLength(0)
    expect(await submit(bytes)).toBe(encodeBase58(bytes, 1, 65))
  })

  it('is refused when its address has spent its burst, and after 50 more in the next second', async () => {
    const { submit, clock } = stage()
    const payers = await Promise.all(Array.from({ length: 4 }, newPayer))
    const all = await Promise.all(Array.from({ length: 152 }, (_, at) => tipped(payers[at % 4]!)))
    const codes = []
    for (const bytes of all.slice(0, 101)) codes.push(await submit(bytes))
    expect(codes.filter((code) => code === 'ADDRESS_RATE')).toHaveLength(1)
    expect(codes[100]).toBe('ADDRESS_RATE')
    clock.ms += 1_000
    const next = []
    for (const bytes of all.slice(101)) next.push(await submit(bytes))
    expect(next.indexOf('ADDRESS_RATE')).toBe(50)
    expect(await submit(all[151]!, '10.0.0.2')).not.toBe('ADDRESS_RATE')
  })

  it('counts towards the rate of its whole IPv6 /64', async () => {
    const { submit } = stage()
    const payers = await Promise.all(Array.from({ length: 4 }, newPayer))
    const codes = []
    for (let at = 0; at < 101; at++)
      codes.push(await submit(await tipped(payers[at % 4]!), `2001:db8::${at.toString(16)}`))
    expect(codes.indexOf('ADDRESS_RATE')).toBe(100)
    expect(await submit(await tipped(), '2001:db8:0:1::1')).not.toBe('ADDRESS_RATE')
  })

  it('is refused when its fee payer has sent 50 in a second from anywhere', async () => {
    const { submit, clock, upstream, tips } = stage()
    const codes = []
    for (let at = 0; at < 51; at++) codes.push(await submit(await tipped(), `10.0.1.${at}`))
    expect(codes.filter((code) => code === 'FEE_PAYER_RATE')).toHaveLength(1)
    expect(upstream.sent).toHaveLength(50)
    expect(tips.last(1)).toMatchObject([{ outcome: 'rejected', reason: 'FEE_PAYER_RATE' }])
    clock.ms += 1_000
    expect(await submit(await tipped())).not.toBe('FEE_PAYER_RATE')
  })

  it("what no upstream can take does not use the payer's rate", async () => {
    const { submit, upstream } = stage()
    upstream.isHealthy = false
    const codes = new Set<string>()
    for (let at = 0; at < 60; at++) codes.add(await submit(await tipped(), `10.0.1.${at}`))
    expect([...codes]).toEqual(['NO_UPSTREAM'])
    upstream.isHealthy = true
    await submit(await tipped())
    expect(upstream.sent).toHaveLength(1)
  })

  it("a forged copy uses neither the payer's rate nor the dedup table", async () => {
    const { submit, upstream } = stage()
    const true50 = await Promise.all(Array.from({ length: 50 }, () => tipped()))
    for (const [at, bytes] of true50.entries()) {
      const forged = Uint8Array.from(bytes)
      forged[64]! ^= 0x80
      expect(await submit(forged, `10.0.2.${at}`)).toBe('BAD_SIGNATURE')
    }
    for (const bytes of true50) expect(await submit(bytes)).toBe(encodeBase58(bytes, 1, 65))
    expect(upstream.sent).toHaveLength(50)
  })

  it('costs no rate when it is a duplicate', async () => {
    const { submit } = stage()
    const bytes = await tipped()
    for (let times = 0; times < 300; times++) await submit(bytes)
    expect(await submit(await tipped())).not.toBe('ADDRESS_RATE')
  })
})

describe('a dry run', () => {
  it('reports the outcome, and counts and sends nothing', async () => {
    const { handler, upstream, meters } = stage()
    const bytes = await tipped()
    const signature = encodeBase58(bytes, 1, 65)
    const lamports = Number(count - 1n)
    expect(handler.check(bytes)).toEqual({
      accepted: true,
      requiredLamports: 1_000_000,
      foundLamports: lamports,
      signature,
    })
    const low = await sign(payer, [transfer({ from: payer, to: accounts.texts[1]!, lamports: 9n })])
    expect(handler.check(low)).toMatchObject({
      accepted: false,
      reason: 'TIP_TOO_LOW',
      foundLamports: 9,
    })
    expect(handler.check(Uint8Array.of(1))).toEqual({
      accepted: false,
      reason: 'MALFORMED',
      requiredLamports: 1_000_000,
      foundLamports: 0,
      signature: null,
    })
    expect(upstream.sent).toHaveLength(0)
    expect(meters.rejected.read().every(([, times]) => times === 0)).toBe(true)
  })
})

// What the embedded chain survives: restarts, a torn journal, broken bytes. A killed process:
// integration/devnode-process.
import { appendFileSync, cpSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Keypair, PublicKey, SystemProgram, Transaction } from '@solana/web3.js'
import { afterEach, describe, expect, it } from 'vitest'
import { encodeBase58, isSameKey } from '../../src/chain/solana/base58.ts'
import { newestShapes } from '../../src/chain/solana/version.ts'
import { ChainStage, good } from '../testkit/chain-stage.ts'
import { sampleTransactions } from '../testkit/solana-samples.ts'
import { randomOf } from '../testkit/synthetic-solana.ts'
import { until } from '../testkit/until.ts'

const stages: ChainStage[] = []
afterEach(async () => {
  for (const stage of stages.splice(0)) await stage.dispose()
})

async function started(section: ConstructorParameters<typeof ChainStage>[0] = {}) {
  const stage = new ChainStage(section)
  stages.push(stage)
  await stage.start()
  return stage
}

function airdrop(stage: ChainStage, to: Uint8Array, lamports = 5_000_000_000n) {
  return good(stage.chain.requestAirdrop(to, lamports))
}

/**
 * Copies the files as they are at one moment: LMDB commits on a thread of its own, and a copy made
 * across a commit is one that no kill leaves behind.
 */
function copyAtRest(from: string, to: string): void {
  const contents = (folder: string) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .sort()
      .filter((name) => name.endsWith('data.mdb'))
      .map((name) => readFileSync(join(folder, name)))
  do cpSync(from, to, { recursive: true })
  while (!Buffer.concat(contents(from)).equals(Buffer.concat(contents(to))))
}

const some = () => Keypair.generate().publicKey.toBytes()

describe('the embedded chain across restarts', () => {
  it('resumes where it stopped, with accounts, slots and history', async () => {
    const stage = await started()
    const to = some()
    const signature = airdrop(stage, to)
    const before = stage.chain.ledger
    const slot = before.signatureStatus(signature)!.slot
    const supply = before.supply(0)
    await stage.stop()
    await stage.start()
    const after = stage.chain.ledger
    expect(after).not.toBe(before)
    expect(after.genesisHash).toBe(before.genesisHash)
    expect(after.account(to, 2)?.lamports).toBe(5_000_000_000n)
    expect(after.signatureStatus(signature)).toMatchObject({ slot, commitment: 2, err: null })
    expect(after.transaction(signature)?.meta.logMessages?.length).toBeGreaterThan(0)
    expect(after.stateSlot(0)).toBeGreaterThan(slot)
    expect(after.supply(0)).toBe(supply)
    expect(
      after
        .block(slot)
        ?.signatures()
        .map((one) => encodeBase58(one)),
    ).toContain(encodeBase58(signature))
    // Money that came in before the restart can be spent after it: the VM has it too.
    airdrop(stage, to)
    expect(after.account(to, 0)?.lamports).toBe(10_000_000_000n)
  })

  it('refuses after a restart what landed before it', async () => {
    const stage = await started()
    const from = Keypair.generate()
    airdrop(stage, from.publicKey.toBytes())
    const { blockhash } = stage.chain.ledger.latestBlockhash(0)
    const transaction = new Transaction({ feePayer: from.publicKey, recentBlockhash: blockhash })
    transaction.add(
      SystemProgram.transfer({
        fromPubkey: from.publicKey,
        toPubkey: new PublicKey(some()),
        lamports: 2_000_000,
      }),
    )
    transaction.sign(from)
    const bytes = transaction.serialize()
    good(stage.chain.submit(bytes, { isVerified: false }))
    await stage.stop()
    await stage.start()
    const again = stage.chain.submit(bytes, { isVerified: false })
    expect(again).toMatchObject({ ok: false, refusal: { data: { err: 'AlreadyProcessed' } } })
  })

  it('keeps every account through snapshots and drops journals of evicted blocks', async () => {
    const stage = await started({ slotMs: 20, snapshotSlots: 60, historySlots: 320, traffic: 50 })
    const wallets = Array.from({ length: 20 }, some)
    for (const wallet of wallets) airdrop(stage, wallet)
    await until(() => stage.chain.ledger.firstAvailableSlot > 200, 'history moves on')
    const supply = stage.chain.ledger.supply(2)
    expect(supply).toBeGreaterThan(0n)
    await stage.stop()
    const files = readdirSync(join(stage.folder, 'chain'))
    expect(files.filter((name) => name.startsWith('snapshot'))).toHaveLength(1)
    expect(files).not.toContain('journal-0')
    await stage.start()
    const { ledger } = stage.chain
    for (const wallet of wallets) expect(ledger.account(wallet, 2)?.lamports).toBe(5_000_000_000n)
    let total = 0n
    for (const { lamports, slot } of ledger.accountsAt(ledger.slot(2)))
      if (slot > 0) total += lamports
    expect(total).toBeGreaterThan(0n)
    expect(ledger.isBlockhashValid(ledger.newest.facts.hash, 0)).toBe(true)
  })

  it('finds a transaction that left the memory, also after a restart', async () => {
    const stage = await started({ slotMs: 20, snapshotSlots: 100 })
    const to = some()
    const signature = airdrop(stage, to)
    const read = () => {
      const { ledger } = stage.chain
      const { slot } = ledger.signatureStatus(signature)!
      const shapes = newestShapes
      const page = { limit: 10, before: null, until: null, commitment: 2 as const, shapes }
      const block = ledger.block(slot)!
      return {
        found: ledger.transaction(signature)!.slot,
        listed: ledger.signaturesForAddress(to, page).map((info) => info.slot),
        inBlock: block.signatures().some((one) => isSameKey(one, signature)),
        first: ledger.firstAvailableSlot,
      }
    }
    const { slot } = stage.chain.ledger.signatureStatus(signature)!
    const expected = { found: slot, listed: [slot], inBlock: true, first: 0 }
    await until(() => stage.chain.ledger.recentSlot > 300, 'it to leave the memory')
    expect(read()).toEqual(expected)
    await stage.stop()
    const journals = readdirSync(join(stage.folder, 'chain')).filter((name) =>
      /^journal/.test(name),
    )
    expect(journals).not.toContain('journal-0')
    await stage.start()
    expect(stage.chain.ledger.recentSlot).toBeGreaterThan(slot)
    expect(read()).toEqual(expected)
  })

  it('takes a journal up to a record that a crash cut short', async () => {
    const stage = await started()
    const to = some()
    airdrop(stage, to)
    await stage.stop()
    const folder = join(stage.folder, 'chain')
    for (const name of readdirSync(folder).filter((file) => file.startsWith('journal')))
      appendFileSync(join(folder, name), Buffer.from([200, 0, 0, 0, 1, 2, 3, 4, 5]))
    await stage.start()
    expect(stage.chain.ledger.account(to, 2)?.lamports).toBe(5_000_000_000n)
    await stage.stop()
    await stage.start()
    expect(stage.chain.ledger.account(to, 2)?.lamports).toBe(5_000_000_000n)
  })

  it('has lost nothing final when the server was killed', async () => {
    const stage = await started({ traffic: 200, snapshotSlots: 25 })
    const wallets: Uint8Array[] = []
    for (let round = 0; round < 12; round++) {
      wallets.push(some())
      const signature = airdrop(stage, wallets.at(-1)!)
      const { slot } = stage.chain.ledger.signatureStatus(signature)!
      await stage.reached(slot + 3, 0)
    }
    const { ledger } = stage.chain
    const final = wallets.filter((wallet) => ledger.account(wallet, 2) !== null)
    expect(final.length).toBeGreaterThan(0)
    const block = ledger.block(ledger.slot(2))!
    // What a killed server leaves behind is what its files hold at some moment.
    const left = new ChainStage(stage.section)
    stages.push(left)
    copyAtRest(join(stage.folder, 'chain'), join(left.folder, 'chain'))
    await left.start()
    const after = left.chain.ledger
    for (const wallet of final) expect(after.account(wallet, 2)?.lamports).toBe(5_000_000_000n)
    expect(after.block(block.slot)?.blockhash).toBe(block.blockhash)
    expect(after.block(block.slot)?.transactionCount).toBe(block.transactionCount)
    airdrop(left, final[0]!)
    expect(after.account(final[0]!, 0)?.lamports).toBe(10_000_000_000n)
  })

  it('starts from a new genesis when started fresh', async () => {
    const stage = await started()
    const to = some()
    airdrop(stage, to)
    const { genesisHash } = stage.chain.ledger
    await stage.stop()
    await stage.start(true)
    expect(stage.chain.ledger.genesisHash).not.toBe(genesisHash)
    expect(stage.chain.ledger.account(to, 0)).toBeNull()
  })
})

describe('broken transactions', () => {
  it('are refused one by one while the chain runs on', async () => {
    const stage = await started({ slotMs: 400 })
    const from = Keypair.generate()
    airdrop(stage, from.publicKey.toBytes())
    const { blockhash } = stage.chain.ledger.latestBlockhash(0)
    const transaction = new Transaction({ feePayer: from.publicKey, recentBlockhash: blockhash })
    const toPubkey = new PublicKey(some())
    transaction.add(
      SystemProgram.transfer({ fromPubkey: from.publicKey, toPubkey, lamports: 2_000_000 }),
    )
    transaction.sign(from)
    const whole = Uint8Array.from(transaction.serialize())
    const refuses = (bytes: Uint8Array) => {
      const sent = stage.chain.submit(bytes, { isVerified: false })
      expect(sent.ok).toBe(false)
      const options = { isBlockhashReplaced: true, mustVerify: false }
      stage.chain.simulate(bytes, options)
    }
    for (let length = 0; length < whole.length; length++) refuses(whole.subarray(0, length))
    refuses(Uint8Array.from([...whole, 0]))
    const random = randomOf(7)
    for (let round = 0; round < 2_000; round++) {
      const bytes = Uint8Array.from(whole)
      const at = Math.floor(random() * bytes.length)
      bytes[at] = (bytes[at]! + 1 + Math.floor(random() * 255)) & 0xff
      refuses(bytes)
    }
    good(stage.chain.submit(whole, { isVerified: false }))
  })

  it('that are signed and make no sense reach the VM and do not bring it down', async () => {
    const stage = await started({ slotMs: 400, traffic: 200 })
    const { ledger } = stage.chain
    await until(() => ledger.transactionCount(1) > 40, 'traffic')
    const seeds = sampleTransactions().map((sample) => sample.bytes)
    for (const slot of ledger.blockSlots({ from: 1, to: ledger.slot(0), limit: 100 }, 0))
      for (const transaction of ledger.block(slot)!.transactions()) seeds.push(transaction.bytes)
    const random = randomOf(99)
    const below = (limit: number) => Math.floor(random() * limit)
    const broken = () => {
      const bytes = Uint8Array.from(seeds[below(seeds.length)]!)
      // Another signature, so that it is no duplicate; then up to three bytes of the message.
      for (let at = 1; at < 33; at++) bytes[at] = below(256)
      for (let count = below(3); count >= 0; count--)
        bytes[65 + below(bytes.length - 65)] = below(random() < 0.5 ? 8 : 256)
      return bytes
    }
    for (let round = 0; round < 2_000; round++) {
      stage.chain.submit(broken(), { isVerified: true })
      stage.chain.simulate(broken(), { isBlockhashReplaced: true, mustVerify: false })
    }
    airdrop(stage, some())
  })
})

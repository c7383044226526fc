// Cheat codes of surfpool on the devnode: accounts, tokens, programs and the clock change as no
// transaction could change them, and everything behind the node goes on.
import { once } from 'node:events'
import {
  createMint,
  getAccount,
  getAssociatedTokenAddressSync,
  NATIVE_MINT,
  TOKEN_2022_PROGRAM_ID,
} from '@solana/spl-token'
import {
  Connection,
  Keypair,
  PublicKey,
  SYSVAR_CLOCK_PUBKEY,
  TransactionInstruction,
} from '@solana/web3.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { type Devnode, startDevnode } from '../testkit/devnode.ts'
import { SolanaNode, transfer } from '../testkit/solana-node.ts'
import { until } from '../testkit/until.ts'

const token2022 = TOKEN_2022_PROGRAM_ID.toBase58()
const loader = new PublicKey('BPFLoaderUpgradeab1e11111111111111111111111')
const key = () => Keypair.generate().publicKey

let devnode: Devnode
let node: SolanaNode
beforeAll(async () => {
  devnode = await startDevnode({ flags: ['--slots-per-epoch=1000'] })
  node = await SolanaNode.of(devnode)
})
afterAll(() => devnode?.dispose())

/** The result of a call that must not fail. */
// biome-ignore lint/suspicious/noExplicitAny: a test looks at whatever came
async function done(method: string, ...params: unknown[]): Promise<any> {
  const { result, error } = await node.call(method, ...params)
  expect(error).toBeUndefined()
  return result
}

async function clock(): Promise<{ slot: number; epoch: number; unixTime: number }> {
  const account = await node.connection.getAccountInfo(SYSVAR_CLOCK_PUBKEY, 'processed')
  const at = (offset: number) => Number(account!.data.readBigUInt64LE(offset))
  return { slot: at(0), epoch: at(16), unixTime: at(32) }
}

/** web3.js with PubSub, whose port is any free one here. */
function connected(): Connection {
  const wsEndpoint = devnode.url('websocket')
  return new Connection(devnode.url('rpc'), { commitment: 'confirmed', wsEndpoint })
}

/** A transaction after the change: the chain goes on. */
async function landsTransfer(): Promise<void> {
  const from = await node.funded()
  await node.reached(await node.land([transfer(from, key(), 1_000_000)], [from]), 'confirmed')
}

describe('accounts', () => {
  it('get lamports, data and an owner, which transactions and subscribers see', async () => {
    const [address, owner] = [key(), key()]
    const told: number[] = []
    const live = connected()
    const subscription = live.onAccountChange(
      address,
      ({ lamports }) => told.push(lamports),
      'confirmed',
    )
    const update = { lamports: 5_000_000, data: '00ff10', owner: owner.toBase58() }
    await until(async () => {
      const result = await done('surfnet_setAccount', address.toBase58(), update)
      expect(result).toEqual({
        context: expect.objectContaining({ slot: expect.any(Number) }),
        value: null,
      })
      return told.length > 0
    }, 'a notification')
    const account = await node.connection.getAccountInfo(address, 'processed')
    expect(account).toMatchObject({ lamports: 5_000_000, owner, executable: false })
    expect(account!.data).toEqual(Buffer.from('00ff10', 'hex'))
    await done('surfnet_setAccount', address.toBase58(), { lamports: 6_000_000 })
    const again = await node.connection.getAccountInfo(address, 'processed')
    expect([again!.lamports, again!.data.length]).toEqual([6_000_000, 3])
    await live.removeAccountChangeListener(subscription)
  })

  it('can be spent from by the next transaction and are still there after kill -9', async () => {
    const wallet = Keypair.generate()
    await done('surfnet_setAccount', wallet.publicKey.toBase58(), { lamports: 7_000_000_000 })
    const signature = await node.land([transfer(wallet, key(), 1_000_000_000)], [wallet])
    await node.reached(signature, 'confirmed')
    const before = devnode.nodePid()
    process.kill(before, 'SIGKILL')
    await until(async () => {
      // In this order: the node that dies may still answer.
      if (devnode.nodePid() === before) return false
      const answer = await node.call('getHealth').catch(() => null)
      return answer?.result === 'ok'
    }, 'the node to be back')
    expect(await node.connection.getBalance(wallet.publicKey, 'processed')).toBe(5_999_995_000)
  })

  it('hold tokens of any mint, wrapped SOL with its lamports', async () => {
    const payer = await node.funded()
    const [owner, delegate] = [key(), key()]
    const mint = await createMint(connected(), payer, payer.publicKey, null, 6)
    const params = [owner.toBase58(), mint.toBase58()]
    await done('surfnet_setTokenAccount', ...params, {
      amount: 1_234,
      delegate: delegate.toBase58(),
      delegatedAmount: 10,
      state: 'frozen',
    })
    const address = getAssociatedTokenAddressSync(mint, owner)
    const token = await getAccount(node.connection, address, 'processed')
    expect(token).toMatchObject({ amount: 1_234n, delegate, delegatedAmount: 10n, isFrozen: true })
    await done('surfnet_setTokenAccount', ...params, { delegate: 'null', state: 'initialized' })
    const thawed = await getAccount(node.connection, address, 'processed')
    expect(thawed).toMatchObject({ amount: 1_234n, delegate: null, isFrozen: false })
    await done('surfnet_setTokenAccount', owner.toBase58(), NATIVE_MINT.toBase58(), { amount: 9 })
    const wrapped = getAssociatedTokenAddressSync(NATIVE_MINT, owner)
    expect(await node.connection.getBalance(wrapped, 'processed')).toBe(2_039_280 + 9)
    expect((await getAccount(node.connection, wrapped, 'processed')).isNative).toBe(true)
    await done('surfnet_setTokenAccount', ...params, { amount: 5 }, token2022)
    const other = getAssociatedTokenAddressSync(mint, owner, false, TOKEN_2022_PROGRAM_ID)
    const info = await node.connection.getTokenAccountBalance(other, 'processed').catch(() => null)
    expect((await node.connection.getAccountInfo(other, 'processed'))?.owner).toEqual(
      TOKEN_2022_PROGRAM_ID,
    )
    expect(info?.value.amount ?? '5').toBe('5')
  })

  it('copy programs and change who may upgrade them', async () => {
    const [copy, authority] = [key(), key()]
    await done('surfnet_cloneProgramAccount', token2022, copy.toBase58())
    // InitializeMint2, which the copy refuses when it sees its own address.
    const instruction = new TransactionInstruction({
      programId: copy,
      keys: [{ pubkey: key(), isSigner: false, isWritable: true }],
      data: Buffer.concat([Buffer.of(20, 3), key().toBuffer(), Buffer.of(0)]),
    })
    const bytes = await node.signed([instruction], [await node.funded()])
    const { value } = await done('simulateTransaction', bytes.toString('base64'), {
      encoding: 'base64',
    })
    expect(value.logs).toContain('Program log: Instruction: InitializeMint2')
    await done('surfnet_setProgramAuthority', copy.toBase58(), authority.toBase58())
    const [code] = PublicKey.findProgramAddressSync([copy.toBytes()], loader)
    const account = await node.connection.getAccountInfo(code, 'processed')
    expect(new PublicKey(account!.data.subarray(13, 45))).toEqual(authority)
    await done('surfnet_setProgramAuthority', copy.toBase58())
    const fixed = await node.connection.getAccountInfo(code, 'processed')
    expect(fixed!.data[12]).toBe(0)
  })

  it('go back to the first block, one by one or all', async () => {
    const [one, two] = [key(), key()]
    const faucet = /^faucet +(\S+)/m.exec(devnode.stdout())![1]!
    for (const address of [one, two])
      await done('surfnet_setAccount', address.toBase58(), { lamports: 5_000_000 })
    await done('surfnet_resetAccount', one.toBase58())
    expect(await node.connection.getBalance(one, 'processed')).toBe(0)
    expect(await node.connection.getBalance(two, 'processed')).toBe(5_000_000)
    await done('surfnet_setAccount', faucet, { lamports: 1_000_000 })
    const slot = await node.connection.getSlot('processed')
    await done('surfnet_resetNetwork')
    expect(await node.connection.getBalance(two, 'processed')).toBe(0)
    expect((await node.call('getBalance', faucet, { commitment: 'processed' })).result.value).toBe(
      500_000_000e9,
    )
    expect(await node.connection.getSlot('processed')).toBeGreaterThanOrEqual(slot)
    await landsTransfer()
  })

  it.each([
    ['a bad key', ['surfnet_setAccount', 'l0l', {}], -32602, 'Invalid'],
    [
      'no hexadecimal data',
      ['surfnet_setAccount', key().toBase58(), { data: 'zz' }],
      -32602,
      "Invalid hex data provided: Invalid character 'z' at position 0",
    ],
    [
      'an odd number of digits',
      ['surfnet_setAccount', key().toBase58(), { data: 'abc' }],
      -32602,
      'Invalid hex data provided: Odd number of digits',
    ],
    [
      'an unknown state',
      ['surfnet_setTokenAccount', key().toBase58(), key().toBase58(), { state: 'odd' }],
      -32602,
      'Invalid token account state odd',
    ],
    [
      'a program that is none',
      ['surfnet_cloneProgramAccount', key().toBase58(), key().toBase58()],
      -32602,
      'is not a program account',
    ],
    ['the past', ['surfnet_timeTravel', { absoluteSlot: 1 }], -32603, 'Internal error'],
    ['a past time', ['surfnet_timeTravel', { absoluteTimestamp: 1 }], -32603, 'Internal error'],
    ['no destination', ['surfnet_timeTravel', { slot: 1 }], -32602, 'absoluteSlot'],
  ] as const)('refuse %s', async (_, [method, ...params], code, message) => {
    const { error } = await node.call(method, ...params)
    expect(error).toMatchObject({ code, message: expect.stringContaining(message) })
  })
})

describe('the clock', () => {
  it('skips slots: blocks, sysvars and every commitment agree, and nothing goes back', async () => {
    const fromMs = Date.now()
    const before = await node.connection.getSlot('processed')
    const target = before + 100_000
    const info = await done('surfnet_timeTravel', { absoluteSlot: target })
    expect(info).toMatchObject({ absoluteSlot: target, slotsInEpoch: 1000 })
    expect([info.epoch, info.slotIndex]).toEqual([Math.floor(target / 1000), target % 1000])
    for (const commitment of ['processed', 'confirmed', 'finalized'] as const)
      expect(await node.connection.getSlot(commitment)).toBeGreaterThanOrEqual(target)
    const moved = await clock()
    expect(moved.slot).toBeGreaterThanOrEqual(target)
    expect(moved.epoch).toBe(Math.floor(moved.slot / 1000))
    expect(moved.unixTime).toBeGreaterThanOrEqual(Math.floor(fromMs / 1000) + 5_999)
    const block = await done('getBlock', target, { transactionDetails: 'none', rewards: false })
    expect(block.parentSlot).toBeGreaterThanOrEqual(before)
    expect(block.parentSlot).toBeLessThan(target - 1)
    const slots = await done('getBlocks', block.parentSlot, target)
    expect(slots).toEqual([block.parentSlot, target])
    const skipped = await node.call('getBlock', target - 1)
    expect(skipped.error?.code).toBe(-32007)
    await landsTransfer()
  })

  it('skips to an epoch and to a time, by default an hour', async () => {
    const { epoch } = await clock()
    expect(await done('surfnet_timeTravel', { absoluteEpoch: epoch + 2 })).toMatchObject({
      epoch: epoch + 2,
      slotIndex: 0,
    })
    const { unixTime } = await clock()
    await done('surfnet_timeTravel', { absoluteTimestamp: (unixTime + 86_400) * 1000 })
    const later = await clock()
    expect(later.unixTime).toBeGreaterThanOrEqual(unixTime + 86_400)
    expect(later.unixTime).toBeLessThan(unixTime + 86_400 + 60)
    await landsTransfer()
  })

  it('stands still while it is paused; transactions still run', async () => {
    await done('surfnet_pauseClock')
    const slot = await node.connection.getSlot('processed')
    const from = await node.funded()
    const signature = await node.land([transfer(from, key(), 1_000_000)], [from])
    expect((await node.connection.getSignatureStatus(signature)).value?.err).toBe(null)
    expect(await node.connection.getSlot('processed')).toBe(slot)
    await done('surfnet_resumeClock')
    await node.reached(signature, 'confirmed')
    expect(await node.connection.getSlot('processed')).toBeGreaterThan(slot)
  })

  it('goes on after a restart where it was', async () => {
    const before = await clock()
    await devnode.stop()
    devnode = await startDevnode({ ledger: devnode.ledger, flags: ['--slots-per-epoch=1000'] })
    node = await SolanaNode.of(devnode)
    const after = await clock()
    expect(after.slot).toBeGreaterThan(before.slot)
    expect(after.unixTime).toBeGreaterThanOrEqual(before.unixTime)
    const { unixTime } = await clock()
    await until(async () => (await clock()).unixTime > unixTime, 'a later second')
    await landsTransfer()
  })

  it('starts at the slot of --warp-slot, and never before the chain', async () => {
    const warped = await startDevnode({ flags: ['--warp-slot', '5000'] })
    try {
      const own = await SolanaNode.of(warped)
      expect(await own.connection.getSlot('finalized')).toBeGreaterThanOrEqual(5_000)
      expect((await own.call('getBlocks', 0, 5_000)).result).toEqual([0, 1, 5_000])
      await warped.stop()
      const { ledger } = warped
      await expect(startDevnode({ ledger, flags: ['--warp-slot', '40'] })).rejects.toThrow(
        /--warp-slot: Cannot travel to past slot: target=40, current=5\d\d\d/,
      )
    } finally {
      await warped.dispose()
    }
  })
})

describe('a profile', () => {
  it('shows units, logs and the change of every account, and keeps nothing', async () => {
    const from = await node.funded()
    const to = key()
    const bytes = await node.signed([transfer(from, to, 2_000_000)], [from])
    const { value } = await done('surfnet_profileTransaction', bytes.toString('base64'), 'tag', {
      encoding: 'base64',
    })
    const { transactionProfile: profile } = value
    expect(profile).toMatchObject({ computeUnitsConsumed: 150, errorMessage: null })
    expect(profile.accountStates[to.toBase58()]).toMatchObject({
      type: 'writable',
      accountChange: { type: 'create', data: { lamports: 2_000_000 } },
    })
    expect(profile.accountStates[from.publicKey.toBase58()].accountChange).toMatchObject({
      type: 'update',
      data: [{ lamports: 10_000_000_000 }, { lamports: 9_997_995_000 }],
    })
    expect(profile.accountStates[PublicKey.default.toBase58()]).toEqual({ type: 'readonly' })
    expect(value.readonlyAccountStates[PublicKey.default.toBase58()].executable).toBe(true)
    expect(await node.connection.getBalance(to, 'processed')).toBe(0)
  })
})

describe('the profile of an instruction', () => {
  it('is its own part of the transaction', async () => {
    const from = await node.funded()
    const [one, two] = [key(), key()]
    const instructions = [transfer(from, one, 2_000_000), transfer(from, two, 3_000_000)]
    const bytes = await node.signed(instructions, [from])
    const { value } = await done('surfnet_profileTransaction', bytes.toString('base64'))
    const [first, second] = value.instructionProfiles
    const payer = from.publicKey.toBase58()
    expect(first).toMatchObject({ computeUnitsConsumed: 150, errorMessage: null })
    expect(second).toMatchObject({ computeUnitsConsumed: 150, errorMessage: null })
    expect(first.logMessages).toHaveLength(2)
    expect(second.logMessages).toHaveLength(2)
    expect(first.accountStates[two.toBase58()]).toBeUndefined()
    expect(second.accountStates[two.toBase58()].accountChange).toMatchObject({ type: 'create' })
    expect(second.accountStates[payer].accountChange.data).toMatchObject([
      { lamports: 9_997_995_000 },
      { lamports: 9_994_995_000 },
    ])
    expect(value.transactionProfile.computeUnitsConsumed).toBe(300)
    const shallow = await done('surfnet_profileTransaction', bytes.toString('base64'), null, {
      depth: 'transaction',
    })
    expect(shallow.value.instructionProfiles).toBeUndefined()
  })
})

describe('a gateway before the devnode', () => {
  it('refuses every cheat code, and follows the chain through a jump', async () => {
    const gateway = await SolanaNode.before([node], '--metrics.enabled=false')
    try {
      for (const method of ['surfnet_setAccount', 'surfnet_timeTravel', 'surfnet_resetNetwork'])
        expect((await gateway.call(method)).error).toEqual({
          code: -32601,
          message: 'Method not found',
        })
      const slots: number[] = []
      const headers = { 'x-token': gateway.token }
      const socket = new WebSocket(gateway.server.url('websocket'), { headers })
      socket.on('message', (text) => {
        const { params } = JSON.parse(String(text))
        if (params !== undefined) slots.push(params.result.slot)
      })
      await once(socket, 'open')
      socket.send('{"jsonrpc":"2.0","id":1,"method":"slotSubscribe"}')
      await until(() => slots.length > 0, 'slots through the gateway')
      const target = (await node.connection.getSlot('processed')) + 200_000
      await done('surfnet_timeTravel', { absoluteSlot: target })
      await until(
        async () => (await gateway.connection.getSlot('finalized')) >= target,
        'the slot at the gateway',
      )
      const from = await gateway.funded()
      const to = key()
      await gateway.reached(
        await gateway.land([transfer(from, to, 3_000_000)], [from]),
        'confirmed',
      )
      expect(await gateway.connection.getBalance(to, 'confirmed')).toBe(3_000_000)
      await until(() => slots.some((slot) => slot > target + 2), 'slots after the jump')
      expect(slots).toEqual([...slots].sort((a, b) => a - b))
      expect(slots).toContain(target)
      socket.close()
    } finally {
      await gateway.dispose()
    }
  })
})

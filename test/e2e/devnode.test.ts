// `sluice devnode`: a node of its own that unmodified clients use without a token, and that outlives
// the death of its process. A gateway in front of one: see clients.test.ts; kit: upstream.test.ts.
import { execFile } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Keypair } from '@solana/web3.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { slotOf } from '../../src/chain/solana/shred.ts'
import { type Devnode, devnodeWords, startDevnode } from '../testkit/devnode.ts'
import { followLaserStream } from '../testkit/laserstream.ts'
import { describePubsubClients } from '../testkit/pubsub-clients.ts'
import { runHere } from '../testkit/run-here.ts'
import { SolanaNode, transfer } from '../testkit/solana-node.ts'
import { until } from '../testkit/until.ts'

// biome-ignore lint/suspicious/noExplicitAny: the client's generated types add nothing here.
const Yellowstone = createRequire(import.meta.url)('@triton-one/yellowstone-grpc').default as any
const run = promisify(execFile)

let devnode: Devnode
let node: SolanaNode
beforeAll(async () => {
  devnode = await startDevnode()
  node = await SolanaNode.of(devnode)
})
afterAll(() => devnode?.dispose())

describe('PubSub', () => {
  describePubsubClients(() => ({ node, url: devnode.url('websocket'), token: '' }))
})

describe('the node', () => {
  it('answers GET /health as a validator does', async () => {
    const response = await fetch(`${devnode.url('rpc')}/health`)
    expect([response.status, await response.text()]).toEqual([200, 'ok'])
  })

  it('refuses another media type than application/json with 415', async () => {
    const body = '{"jsonrpc":"2.0","id":1,"method":"getSlot"}'
    const post = (type: string) =>
      fetch(devnode.url('rpc'), { method: 'POST', headers: { 'content-type': type }, body })
    expect((await post('text/plain')).status).toBe(415)
    expect((await post('application/json; charset=utf-8')).status).toBe(200)
  })

  it('prints how to point clients at it', () => {
    const printed = devnode.stdout()
    expect(printed).toContain(`new Connection('${devnode.url('rpc')}'`)
    expect(printed).toContain(`createSolanaRpc('${devnode.url('rpc')}')`)
    expect(printed).toContain(`solana config set --url ${devnode.url('rpc')}`)
  })

  it('writes the key pairs and the log of a test validator into its ledger folder', async () => {
    const keyPair = (name: string) => {
      const file = join(devnode.ledger, `${name}-keypair.json`)
      expect(statSync(file).mode & 0o777, file).toBe(0o600)
      // The client verifies that the secret belongs to the public key.
      return Keypair.fromSecretKey(Uint8Array.from(JSON.parse(readFileSync(file, 'utf8'))))
    }
    const identity = keyPair('validator').publicKey.toBase58()
    expect((await node.call('getIdentity')).result.identity).toBe(identity)
    // Delinquent until it has voted.
    const { current, delinquent } = (await node.call('getVoteAccounts')).result
    const [{ votePubkey, nodePubkey }] = [...current, ...delinquent]
    expect([votePubkey, nodePubkey]).toEqual([
      keyPair('vote-account').publicKey.toBase58(),
      identity,
    ])
    const to = Keypair.generate().publicKey
    const faucet = keyPair('faucet')
    await node.land([transfer(faucet, to, 1_000_000_000)], [faucet])
    const log = readFileSync(join(devnode.ledger, 'validator.log'), 'utf8')
    const [contact] = (await node.call('getClusterNodes')).result
    expect(log).toContain(`genesis hash: ${(await node.call('getGenesisHash')).result}`)
    expect(log).toContain(`feat:${contact.featureSet.toString(16)}`)
    expect(log).toContain(`rpc bound to ${contact.rpc}`)
    expect(log).toContain(`local gossip address: ${contact.gossip}`)
  })

  it('streams to an unmodified yellowstone client, from the past on', async () => {
    const client = new Yellowstone(devnode.url('grpc'), undefined, {})
    expect(JSON.stringify(await client.getVersion())).toContain('sluice')
    const start = (await node.call('getSlot')).result
    const stream = await client.subscribe()
    const slots: number[] = []
    // biome-ignore lint/suspicious/noExplicitAny: as above.
    stream.on('data', (update: any) => {
      if (update.slot !== undefined && update.slot.status === 0)
        slots.push(Number(update.slot.slot))
    })
    stream.on('error', () => {})
    stream.write({
      accounts: {},
      slots: { all: {} },
      transactions: {},
      transactionsStatus: {},
      blocks: {},
      blocksMeta: {},
      entry: {},
      accountsDataSlice: [],
      fromSlot: String(start),
    })
    await until(() => slots.length > 5, 'slots of the past and new ones')
    stream.end()
    const unique = [...new Set(slots)]
    expect(unique).toEqual(unique.map((_, index) => unique[0]! + index))
    expect(unique[0]).toBeLessThanOrEqual(start + 1)
  })

  it('streams to LaserStream with zstd', async () => {
    const laser = await followLaserStream(devnode.url('grpc'), 'none', 'zstd')
    await until(() => laser.updates.filter(({ slot }) => slot).length > 3, 'slots')
    expect(laser.errors).toEqual([])
    laser.cancel()
  })

  it('comes back on the same ports after kill -9, with everything that was finalized', async () => {
    const from = await node.funded()
    const to = Keypair.generate().publicKey
    const signature = await node.land([transfer(from, to, 1_000_000)], [from])
    await node.reached(signature, 'finalized')
    const before = devnode.nodePid()
    process.kill(before, 'SIGKILL')
    await until(async () => {
      // In this order: one that dies may still answer.
      if (devnode.nodePid() === before) return false
      const answer = await node.call('getHealth').catch(() => null)
      return answer?.result === 'ok'
    }, 'the node to be back')
    expect(await node.connection.getBalance(to, 'finalized')).toBe(1_000_000)
    expect((await node.call('getTransaction', signature, 'json')).result.slot).toBeGreaterThan(0)
  })
})

describe('the command', () => {
  const ledger = mkdtempSync(join(tmpdir(), 'sluice-devnode-'))
  let own: Devnode | null = null
  afterAll(async () => {
    await own?.stop()
    rmSync(ledger, { recursive: true, force: true })
  })

  it('refuses a ledger that another devnode has', async () => {
    const words = devnodeWords(`--ledger=${devnode.ledger}`, '--rpc-port=0', '--grpc-port=0')
    const failed = await run(process.execPath, words).catch((error) => error)
    expect(failed.code).toBe(1)
    expect(failed.stderr).toContain(`is in use by process ${devnode.pid}`)
  })

  it('names the flag of a port that is taken', async () => {
    const { port } = new URL(devnode.url('rpc'))
    const words = devnodeWords(`--ledger=${ledger}`, `--rpc-port=${port}`, '--grpc-port=0')
    const failed = await run(process.execPath, words).catch((error) => error)
    expect(failed.code).toBe(1)
    expect(failed.stderr).toContain('stop it or set --rpc-port')
  })

  it.each([
    ['--rpc-port=70000', '--rpc-port must be an integer, 0 to 65535'],
    ['--slot-ms=1', '--slot-ms must be an integer, 20 to 60000'],
    ['--shreds=localhost:1', '--shreds must be a literal address and a port'],
    ['--traffic=many', '--traffic must be an integer, 0 to 5000'],
  ])('refuses %s', async (flag, sentence) => {
    const failed = await runHere('devnode', flag)
    expect([failed.code, failed.stderr]).toEqual([2, expect.stringContaining(sentence)])
  })

  it('sends shreds to the address of --shreds, and generates no traffic unless configured', async () => {
    const socket = createSocket('udp4')
    const slots = new Set<number>()
    socket.on('message', (shred) => slots.add(slotOf(shred)))
    socket.bind(0, '127.0.0.1')
    await once(socket, 'listening')
    const shreds = `--shreds=127.0.0.1:${socket.address().port}`
    own = await startDevnode({ ledger, flags: [shreds] })
    await until(() => slots.size > 2, 'shreds of some slots')
    socket.close()
    const quiet = await SolanaNode.of(own)
    await until(async () => (await quiet.call('getSlot')).result > 3, 'finalized blocks')
    const block = await quiet.call('getBlock', 3, { transactionDetails: 'signatures' })
    expect(block.result.signatures).toEqual([])
  })

  it('starts from genesis with --reset and resumes without it', async () => {
    const one = await SolanaNode.of(own!)
    const funded = await one.funded(5_000_000)
    await until(
      async () => (await one.connection.getBalance(funded.publicKey, 'finalized')) > 0,
      'a finalized airdrop',
    )
    await own!.stop()
    own = await startDevnode({ ledger })
    const two = await SolanaNode.of(own)
    expect(await two.connection.getBalance(funded.publicKey, 'processed')).toBe(5_000_000)
    await own.stop()
    own = await startDevnode({ ledger, flags: ['--reset'] })
    const three = await SolanaNode.of(own)
    expect(await three.connection.getBalance(funded.publicKey, 'processed')).toBe(0)
  })
})

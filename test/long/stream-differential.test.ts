// Asks a node and a gateway in front of it the same questions while the chain moves and the
// gateway's nodes fail in turn: at equal context slots the answers are equal to the byte.
import {
  ComputeBudgetProgram,
  Keypair,
  TransactionMessage,
  VersionedTransaction,
} from '@solana/web3.js'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { CutNode } from '../testkit/cut-node.ts'
import { type Devnode, startDevnode } from '../testkit/devnode.ts'
import { provision } from '../testkit/server.ts'
import { SolanaNode, transfer } from '../testkit/solana-node.ts'
import {
  createMint,
  createTokenAccount,
  mintBytes,
  mintTo,
  tokenAccountBytes,
} from '../testkit/token-instructions.ts'
import { hangMs, until } from '../testkit/until.ts'

const clock = 'SysvarC1ock11111111111111111111111111111111'
const dataSlice = { offset: 3, length: 40 }
const encodings = [
  {},
  { encoding: 'base58', dataSlice },
  { encoding: 'base64' },
  { encoding: 'base64', dataSlice },
  { encoding: 'base64+zstd' },
  { encoding: 'jsonParsed' },
]
/** Equal context slots to see of every question, answered by the stream. */
const pairsMin = 3

/** A transaction that was finalized a moment ago. */
interface Recent {
  readonly signature: string
  readonly slot: number
}

type Params = (recent: Recent) => readonly unknown[]
type AnyParams = Params | readonly unknown[]

class Question {
  readonly method: string
  /** Whether the stream can know. */
  readonly isStreamed: boolean
  readonly differences: string[] = []
  pairs = 0
  readonly #params: Params
  readonly #nodeParams: Params
  /** Answers by params and slot: gateway and node do not come to a slot at the same moment. */
  readonly #here = new Map<string, string>()
  readonly #there = new Map<string, string>()

  /** `nodeParams` where the node shall be asked something else. */
  constructor(method: string, params: AnyParams, isStreamed: boolean, nodeParams = params) {
    this.method = method
    this.isStreamed = isStreamed
    this.#params = typeof params === 'function' ? params : () => params
    this.#nodeParams = typeof nodeParams === 'function' ? nodeParams : () => nodeParams
  }

  async compare(recent: Recent, asked: Asked = gateway): Promise<void> {
    const { method } = this
    const params = this.#params(recent)
    const [here, there] = await Promise.all([
      ask(asked, method, params),
      ask(chain, method, this.#nodeParams(recent)),
    ])
    const at = (slot: number) => `${JSON.stringify(params)} ${slot}`
    const keys = new Set([at(there.slot)])
    this.#there.set(at(there.slot), there.text)
    if (here.source === 'stream') {
      keys.add(at(here.slot))
      this.#here.set(at(here.slot), here.text)
      if (!this.isStreamed) this.differences.push(`from the stream: ${here.text}`)
    }
    for (const key of keys) {
      const pair = [this.#here.get(key), this.#there.get(key)]
      if (pair.includes(undefined)) continue
      this.pairs++
      if (pair[0] !== pair[1]) this.differences.push(pair.join(' '))
    }
  }

  toString(): string {
    return `${this.method} ${this.#params({ signature: '', slot: 0 })}`
  }
}

let devnode: Devnode
let chain: SolanaNode
const nodes: CutNode[] = []
let gateway: SolanaNode
/** Another customer: one that was shown a slot by a node waits for the stream to get there. */
let another: Asked

beforeAll(async () => {
  devnode = await startDevnode({ slotMs: 150 })
  chain = await SolanaNode.of(devnode)
  nodes.push(await CutNode.of(devnode), await CutNode.of(devnode))
  // Nothing but rpc: it opens the stream for its own answers.
  const closed = ['metrics', 'indexer', 'websocket', 'grpc']
  gateway = await SolanaNode.before(nodes, ...closed.map((name) => `--${name}.enabled=false`))
  const { token } = await provision(
    gateway.server.data,
    'another',
    '--product=bundle',
    '--plan=unlimited',
  )
  another = { url: gateway.url, token }
})
afterAll(async () => {
  await gateway?.dispose()
  for (const node of nodes) node.close()
  await devnode?.dispose()
})

interface Asked {
  readonly url: string
  readonly token: string
}

interface Given {
  readonly text: string
  readonly source: string | null
  readonly slot: number
}

async function ask(
  { url, token }: Asked,
  method: string,
  params: readonly unknown[],
): Promise<Given> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-token': token },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  })
  const text = await response.text()
  const slot = Number(/"slot":(\d+)/.exec(text)?.[1] ?? 0)
  return { text, source: response.headers.get('x-sluice-source'), slot }
}

/** More than until a transaction is finalized: the stream has it by then, too. */
const finalSlots = 50

/**
 * Writes a wallet, one that comes and goes, and a token account, again and again. Some of the
 * transactions fail, some are of version 0.
 */
class Traffic {
  readonly wallet = Keypair.generate().publicKey
  readonly guest = Keypair.generate()
  readonly mint = Keypair.generate()
  readonly held = Keypair.generate()
  payer!: Keypair
  readonly #landed: { readonly signature: string; readonly atSlot: number }[] = []
  #isOver = false
  #loop: Promise<void> = Promise.resolve()

  /** Each time a later one; null before the first. */
  async recent(): Promise<Recent | null> {
    const before = (await chain.connection.getSlot('processed')) - finalSlots
    const signature = this.#landed.findLast(({ atSlot }) => atSlot < before)?.signature
    if (signature === undefined) return null
    const { value } = await chain.connection.getSignatureStatus(signature)
    return value === null ? null : { signature, slot: value.slot }
  }

  async start(): Promise<void> {
    this.payer = await chain.funded()
    const { payer, mint, held } = this
    const key = payer.publicKey.toBase58()
    const at = { commitment: 'processed' }
    await until(async () => (await chain.call('getBalance', key, at)).result.value > 0, 'funds')
    const rentOf = (bytes: number) => chain.connection.getMinimumBalanceForRentExemption(bytes)
    await chain.land(createMint(payer, mint, await rentOf(mintBytes)), [payer, mint])
    const lamports = await rentOf(tokenAccountBytes)
    const of = { mint: mint.publicKey, owner: payer.publicKey, lamports }
    await chain.land(createTokenAccount(payer, held, of), [payer, held])
    this.#loop = this.#run()
  }

  async #run(): Promise<void> {
    const { payer, wallet, guest, mint, held } = this
    for (let count = 1; !this.#isOver; count++) {
      const lamports = 2_000_000
      const visit =
        count % 2 === 1
          ? transfer(payer, guest.publicKey, lamports)
          : transfer(guest, payer.publicKey, lamports)
      const instructions = [
        bid(count % 5),
        transfer(payer, wallet, 1_000_000 + count),
        mintTo(mint.publicKey, held.publicKey, payer.publicKey, BigInt(count)),
        visit,
      ]
      const signers = count % 2 === 1 ? [payer] : [payer, guest]
      await chain.land(instructions, signers)
      const signature = await this.#landOther(count)
      this.#landed.push({ signature, atSlot: await chain.connection.getSlot('processed') })
    }
  }

  /** In turn one of version 0, a failing one, and a plain one. */
  async #landOther(count: number): Promise<string> {
    const { payer, wallet } = this
    const { publicKey: payerKey } = payer
    if (count % 3 === 0)
      return chain.land([bid(count), transfer(payer, wallet, 1_000 + count)], [payer])
    const lamports = count % 3 === 1 ? 2_000 + count : 10 ** 15 + count
    const { blockhash: recentBlockhash } = await chain.connection.getLatestBlockhash('processed')
    const instructions = [bid(7 * count), transfer(payer, wallet, lamports)]
    const message = new TransactionMessage({ payerKey, recentBlockhash, instructions })
    const made = new VersionedTransaction(message.compileToV0Message())
    made.sign([payer])
    return chain.connection.sendRawTransaction(made.serialize(), { skipPreflight: true })
  }

  async stop(): Promise<void> {
    this.#isOver = true
    await this.#loop
  }
}

const bid = (microLamports: number) => ComputeBudgetProgram.setComputeUnitPrice({ microLamports })

function questionsOn({ wallet, guest, payer, mint, held }: Traffic): Question[] {
  const keys = [wallet, guest.publicKey, payer.publicKey, mint.publicKey, held.publicKey]
  const texts = keys.map((key) => key.toBase58())
  const absent = Keypair.generate().publicKey.toBase58()
  const all = [...texts, absent, '11111111111111111111111111111111', clock]
  const questions: Question[] = []
  const add = (...of: ConstructorParameters<typeof Question>) => questions.push(new Question(...of))
  for (const commitment of ['confirmed', 'finalized']) {
    for (const key of all) {
      const isKept = key !== clock
      add('getBalance', [key, { commitment }], isKept)
      for (const config of encodings) {
        // 165 bytes are too long for base58: a node words that.
        const isError = key === texts.at(-1) && config.encoding === undefined
        add('getAccountInfo', [key, { commitment, ...config }], isKept && !isError)
      }
    }
    add('getMultipleAccounts', [all.slice(0, -1), { commitment }], true)
    add('getMultipleAccounts', [texts, { commitment, encoding: 'jsonParsed' }], true)
    add('getTokenAccountBalance', [held.publicKey.toBase58(), { commitment }], true)
  }
  for (const commitment of ['confirmed', 'finalized'])
    for (const encoding of ['json', 'jsonParsed', 'base58', 'base64', 'binary']) {
      const config = { commitment, encoding, maxSupportedTransactionVersion: 0 }
      add('getTransaction', ({ signature }) => [signature, config], true)
      for (const transactionDetails of ['full', 'accounts', 'signatures', 'none'])
        for (const rewards of [true, false])
          add('getBlock', ({ slot }) => [slot, { ...config, transactionDetails, rewards }], true)
    }
  // The slot that is compared is that of the oldest block, so that 150 equal ones are a pair.
  for (const fees of [[], [[]], [[wallet]], [[held.publicKey, mint.publicKey, absent]]])
    add('getRecentPrioritizationFees', fees, true)
  add('getSignatureStatuses', ({ signature }) => [[signature, '1'.repeat(64)]], false)
  add('getBalance', [clock, { commitment: 'processed' }], false)
  return questions
}

/** Its state of a complete processed slot is what a node later shows of it as confirmed. */
function processedQuestions({ wallet, guest, payer, held }: Traffic): Question[] {
  const keys = [wallet, guest.publicKey, payer.publicKey, held.publicKey].map(String)
  const ofOne = (method: string, key: string, config: object = {}) => {
    const params = (commitment: string) => [key, { commitment, ...config }]
    return new Question(method, params('processed'), true, params('confirmed'))
  }
  return [
    ...keys.map((key) => ofOne('getBalance', key)),
    ...encodings.slice(1).map((config) => ofOne('getAccountInfo', keys[3]!, config)),
    ofOne('getTokenAccountBalance', keys[3]!),
  ]
}

/** At processed, which a customer does not get from the stream after a node's later answer. */
function headQuestions(): Question[] {
  const list = ({ signature }: Recent) => [signature, signature]
  const config = { searchTransactionHistory: true }
  return [
    new Question('getLatestBlockhash', [{ commitment: 'processed' }], true),
    new Question('getLatestBlockhash', [{ commitment: 'confirmed' }], true),
    new Question('getLatestBlockhash', [], true),
    new Question('getSignatureStatuses', (recent) => [list(recent)], true),
    new Question('getSignatureStatuses', (recent) => [list(recent), config], true),
  ]
}

/** A node shows its open slot as processed, which the stream reaches with the next one. */
async function compareHeads(questions: readonly Question[], traffic: Traffic): Promise<void> {
  const recent = await traffic.recent()
  for (let count = 0; recent !== null && count < 20; count++)
    await Promise.all(questions.map((question) => question.compare(recent, another)))
}

/** One round: each question to both at once. Processed state of one slot changes: not compared. */
async function compare(questions: readonly Question[], traffic: Traffic): Promise<void> {
  for (let at = 0; at < questions.length; at += 8) {
    const recent = await traffic.recent()
    if (recent === null) return
    await Promise.all(questions.slice(at, at + 8).map((question) => question.compare(recent)))
  }
}

/** Reads one account again and again: the slots that it is shown. */
class Customer {
  readonly slots: number[] = []
  isOver = false

  async run(method: string, params: readonly unknown[]): Promise<void> {
    while (!this.isOver) {
      const { slot } = await ask(gateway, method, params)
      if (slot !== 0) this.slots.push(slot)
    }
  }
}

it('answers from the stream what the node answers, to the byte, through failovers', async () => {
  const traffic = new Traffic()
  await traffic.start()
  const heads = [...headQuestions(), ...processedQuestions(traffic)]
  const questions = [...questionsOn(traffic), ...heads]
  const customer = new Customer()
  const params = [traffic.wallet.toBase58(), { commitment: 'confirmed' }]
  const reading = customer.run('getBalance', params)
  await until(async () => (await traffic.recent()) !== null, 'a finalized transaction')
  const isEnough = () =>
    questions.every(({ isStreamed, pairs }) => !isStreamed || pairs >= pairsMin)
  const endMs = Date.now() + 5 * hangMs
  for (let round = 0; !isEnough() && Date.now() < endMs; round++) {
    await compare(questions, traffic)
    await compareHeads(heads, traffic)
    // Each node in turn is gone for a round; the stream resumes at the other.
    if (round % 4 === 1) nodes[(round >> 2) % 2]!.kill(true)
    if (round % 4 === 2) nodes[(round >> 2) % 2]!.kill(false)
  }
  for (const node of nodes) node.kill(false)
  customer.isOver = true
  await reading
  await traffic.stop()
  expect(questions.flatMap(({ differences }) => differences)).toEqual([])
  const missed = questions.filter(({ isStreamed, pairs }) => isStreamed && pairs < pairsMin)
  expect(missed.map(String)).toEqual([])
  expect(customer.slots).toEqual([...customer.slots].sort((a, b) => a - b))
  expect(new Set(customer.slots).size).toBeGreaterThan(10)
})

// Asks a node and a gateway in front of it the same questions while the chain moves and the
// gateway's nodes fail in turn: at equal context slots the answers are equal to the byte.
import { Keypair } from '@solana/web3.js'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { CutNode } from '../testkit/cut-node.ts'
import { type Devnode, startDevnode } from '../testkit/devnode.ts'
import { SolanaNode, transfer } from '../testkit/solana-node.ts'
import {
  createMint,
  createTokenAccount,
  mintBytes,
  mintTo,
  tokenAccountBytes,
} from '../testkit/token-instructions.ts'
import { until } from '../testkit/until.ts'

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
const deadlineMs = 150_000
/** Equal context slots to see of every question, answered by the stream. */
const pairsMin = 3

interface Question {
  readonly method: string
  readonly params: readonly unknown[]
  /** Whether the stream can know. */
  readonly isStreamed: boolean
  pairs: number
  differences: string[]
}

let devnode: Devnode
let chain: SolanaNode
const nodes: CutNode[] = []
let gateway: SolanaNode

beforeAll(async () => {
  devnode = await startDevnode({ slotMs: 150 })
  chain = await SolanaNode.of(devnode)
  nodes.push(await CutNode.of(devnode), await CutNode.of(devnode))
  gateway = await SolanaNode.before(nodes, '--metrics.enabled=false', '--indexer.enabled=false')
}, 180_000)
afterAll(async () => {
  await gateway?.dispose()
  for (const node of nodes) node.close()
  await devnode?.dispose()
}, 60_000)

interface Given {
  readonly text: string
  readonly source: string | null
  readonly slot: number
}

async function ask({ url, token }: SolanaNode, { method, params }: Question): Promise<Given> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-token': token },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  })
  const text = await response.text()
  const slot = Number(/"slot":(\d+)/.exec(text)?.[1] ?? -1)
  return { text, source: response.headers.get('x-sluice-source'), slot }
}

/** Writes a wallet, one that comes and goes, and a token account, again and again. */
class Traffic {
  readonly wallet = Keypair.generate().publicKey
  readonly guest = Keypair.generate()
  readonly mint = Keypair.generate()
  readonly held = Keypair.generate()
  payer!: Keypair
  #isOver = false
  #loop: Promise<void> = Promise.resolve()

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
        transfer(payer, wallet, 1_000_000 + count),
        mintTo(mint.publicKey, held.publicKey, payer.publicKey, BigInt(count)),
        visit,
      ]
      await chain.land(instructions, count % 2 === 1 ? [payer] : [payer, guest])
    }
  }

  async stop(): Promise<void> {
    this.#isOver = true
    await this.#loop
  }
}

function questionsOn({ wallet, guest, payer, mint, held }: Traffic): Question[] {
  const keys = [wallet, guest.publicKey, payer.publicKey, mint.publicKey, held.publicKey]
  const texts = keys.map((key) => key.toBase58())
  const absent = Keypair.generate().publicKey.toBase58()
  const all = [...texts, absent, '11111111111111111111111111111111', clock]
  const questions: Question[] = []
  const add = (method: string, params: readonly unknown[], isStreamed: boolean) =>
    questions.push({ method, params, isStreamed, pairs: 0, differences: [] })
  for (const commitment of ['processed', 'confirmed', 'finalized']) {
    const isKnown = commitment !== 'processed'
    for (const key of all) {
      const isKept = isKnown && key !== clock
      add('getBalance', [key, { commitment }], isKept)
      for (const config of encodings) {
        // 165 bytes are too long for base58: a node words that.
        const isError = key === texts.at(-1) && config.encoding === undefined
        const isExact = isKept && !isError && config.encoding !== 'base64+zstd'
        add('getAccountInfo', [key, { commitment, ...config }], isExact)
      }
    }
    add('getMultipleAccounts', [all.slice(0, -1), { commitment }], isKnown)
    add('getMultipleAccounts', [texts, { commitment, encoding: 'jsonParsed' }], isKnown)
    add('getTokenAccountBalance', [held.publicKey.toBase58(), { commitment }], isKnown)
    add('getLatestBlockhash', [{ commitment }], true)
  }
  return questions
}

/** One round: each question to both at once. Processed state of one slot changes: not compared. */
async function compare(questions: readonly Question[]): Promise<void> {
  for (let at = 0; at < questions.length; at += 8) {
    const some = questions.slice(at, at + 8)
    await Promise.all(
      some.map(async (question) => {
        const [here, there] = await Promise.all([ask(gateway, question), ask(chain, question)])
        if (here.source !== 'stream') return
        if (!question.isStreamed) question.differences.push(`from the stream: ${here.text}`)
        if (here.slot === -1 || here.slot !== there.slot) return
        question.pairs++
        if (here.text !== there.text) question.differences.push(`${here.text} ${there.text}`)
      }),
    )
  }
}

/** Reads one account again and again: the slots that it is shown. */
class Customer {
  readonly slots: number[] = []
  isOver = false

  async run(question: Question): Promise<void> {
    while (!this.isOver) {
      const { slot } = await ask(gateway, question)
      if (slot !== -1) this.slots.push(slot)
    }
  }
}

it('answers from the stream what the node answers, to the byte, through failovers', async () => {
  const traffic = new Traffic()
  await traffic.start()
  const questions = questionsOn(traffic)
  const customer = new Customer()
  const at = { commitment: 'confirmed' }
  const params = [traffic.wallet.toBase58(), at]
  const reading = customer.run({
    method: 'getBalance',
    params,
    isStreamed: true,
    pairs: 0,
    differences: [],
  })
  const isEnough = () =>
    questions.every(({ isStreamed, pairs }) => !isStreamed || pairs >= pairsMin)
  const endMs = Date.now() + deadlineMs
  for (let round = 0; !isEnough() && Date.now() < endMs; round++) {
    await compare(questions)
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
  expect(missed.map(({ method, params }) => JSON.stringify([method, params]))).toEqual([])
  expect(customer.slots).toEqual([...customer.slots].sort((a, b) => a - b))
  expect(new Set(customer.slots).size).toBeGreaterThan(10)
}, 240_000)

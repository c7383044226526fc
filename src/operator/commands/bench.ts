// `sluice bench`: compares endpoints (race), routes (land) and result files (compare).
import { isLoopback } from '../../base/cidr.ts'
import { accept, type Outcome, type Refusal, refuse } from '../../base/errors.ts'
import { decodeKey } from '../../chain/solana/base58.ts'
import type { Keypair } from '../../chain/solana/keypair.ts'
import {
  changeName,
  changePercent,
  changeRow,
  compareResults,
  worseThan,
} from '../../loadtest/compare.ts'
import type { RouteTarget, WatchTarget } from '../../loadtest/land/land.ts'
import {
  airdroppedWallet,
  balanceOf,
  readKeypair,
  rentLamports,
  runLand,
  watchKinds,
} from '../../loadtest/land/land.ts'
import {
  landPlot,
  landResult,
  landSentences,
  scoreRoutes,
} from '../../loadtest/land/land-result.ts'
import { affordable, costOf, type Price } from '../../loadtest/land/plan.ts'
import { runRace } from '../../loadtest/race/connections.ts'
import { racePlot, raceResult, raceSentences } from '../../loadtest/race/race-result.ts'
import { type RaceTarget, raceKinds, type Unit, unitOf, units } from '../../loadtest/race/units.ts'
import {
  parsePercent,
  parseRate,
  readResult,
  resultOf,
  verdictLines,
} from '../../loadtest/result.ts'
import { parseTarget, type Target } from '../../loadtest/target.ts'
import { benchLoadVerb } from './bench-load.ts'
import { LiveLine, outputFlags, reportResult, timesOf, watchStopSignals } from './bench-output.ts'
import { tableOf } from './output.ts'
import {
  type Call,
  type FlagSpec,
  flagOf,
  flagTable,
  lamportsOf,
  listOf,
  misuse,
  numberOf,
  type Report,
  type Verb,
} from './verb.ts'

const benchCompareVerb: Verb = {
  words: ['bench', 'compare'],
  summary: 'Compare two results of sluice bench, figure by figure.',
  examples: ['bench compare before.json after.json'],
  needsNoConfig: true,
  positionals: [
    { name: 'before', doc: 'result file (JSON) of the earlier run' },
    { name: 'after', doc: 'result file (JSON) of the later run' },
  ],
  flags: flagTable(`
    --fail-above <percent>  Exit 1 when a figure became worse by more than this and by more than
                            the noise.`),
  async run(call) {
    const [beforePath = '', afterPath = ''] = call.positionals
    const given = flagOf(call, 'fail-above')
    const limit = given === undefined ? null : parsePercent(given)
    if (given !== undefined && limit === null)
      return misuse(`--fail-above is a percentage such as 10%, not ${given}`)
    const before = readResult(beforePath)
    if (!before.ok) return before
    const after = readResult(afterPath)
    if (!after.ok) return after
    const compared = compareResults(before.value, after.value)
    if (!compared.ok) return compared
    const worse = limit === null ? [] : worseThan(compared.value, limit)
    const doubts = [
      ...verdictLines(before.value).map((line) => `before: ${line}`),
      ...verdictLines(after.value).map((line) => `after: ${line}`),
    ]
    const text = [
      tableOf(
        ['figure', 'before', 'after', 'change'],
        compared.value.changes.map(changeRow),
        'no figures',
      ),
      ...compared.value.settings.map((line) => `different setting: ${line}`),
      ...doubts,
      ...worse.map(
        (change) => `FAILED: ${changeName(change)} became worse by ${changePercent(change)}`,
      ),
    ].join('\n')
    const fails = limit !== null && (worse.length > 0 || doubts.length > 0)
    return accept({ json: { ...compared.value, worse, doubts }, text, exit: fails ? 1 : 0 })
  },
}

const letters = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'] as const
const commitments = ['processed', 'confirmed', 'finalized'] as const
const pollMs = 50
const seedMax = 0xffff_ffff
const defaultTimes = { for: '30s', null: '10s', 'warm-up': '5s', 'cool-down': '5s' } as const

export const benchRaceVerb: Verb = {
  words: ['bench', 'race'],
  summary: 'Compare endpoints: which one shows a transaction, slot or account write first.',
  examples: ['bench race --a geyser=http://127.0.0.1:10010 --b websocket=ws://127.0.0.1:8900'],
  needsNoConfig: true,
  flags: [
    ...letters.map(endpointFlag),
    ...flagTable(`
    --unit <unit ${units.join('|')}>  What is compared [what all can show].
    --account <address> ...  Only transactions that name it, or the account whose writes count.
    --commitment <level ${commitments.join('|')}>  Commitment [processed].
    --for <time>        Counted time [30s].
    --null <time>       Counted time of the null run, 0s for none [10s].
    --warm-up <time>    Time before the count [5s].
    --cool-down <time>  Time after it for late endpoints [5s].
    --poll <ms 1..60000>  Time between two getSlot [${pollMs}].
    --seed <n 0..${seedMax}>  Seed of the bootstrap [1].`),
    ...outputFlags,
  ],
  async run(call) {
    const asked = askedRace(call)
    return asked.ok ? race(call, asked.value) : asked
  },
}

interface AskedRace {
  readonly targets: readonly RaceTarget[]
  readonly unit: Unit
  readonly accounts: readonly string[]
  readonly times: Readonly<Partial<Record<keyof typeof defaultTimes, number>>>
}

function endpointFlag(letter: (typeof letters)[number]): FlagSpec {
  const doc =
    letter === 'a'
      ? `Endpoint: ${raceKinds.join(', ')}; options token=, token-file=, name=.`
      : `${letter < 'c' ? 'Second' : 'Another'} endpoint.`
  return { name: letter, value: 'kind=url[,token=…]', doc }
}

function askedRace(call: Call): Outcome<AskedRace> {
  const targets: RaceTarget[] = []
  for (const letter of letters) {
    const text = flagOf(call, letter)
    if (text === undefined) continue
    const target = parseTarget(letter, text, raceKinds)
    if (!target.ok) return target
    targets.push({ ...target.value, label: `${letter} ${target.value.label}` })
  }
  if (targets.length < 2) return misuse('a race needs two endpoints or more: --a and --b')
  const unit = unitOf(targets, flagOf(call, 'unit'))
  if (!unit.ok) return unit
  const accounts = listOf(call, 'account') ?? []
  const wrong = accounts.find((account) => decodeKey(account) === null)
  if (wrong !== undefined) return misuse(`--account ${wrong} is not the address of an account`)
  if (unit.value === 'account' && accounts.length === 0)
    return misuse('--unit account needs --account, the account whose writes count')
  const times = timesOf(call, defaultTimes)
  if (!times.ok) return times
  if (times.value.for === 0) return misuse('--for must be longer than 0s')
  return accept({ targets, unit: unit.value, accounts, times: times.value })
}

async function race(
  call: Call,
  { targets, unit, accounts, times }: AskedRace,
): Promise<Outcome<Report>> {
  const { for: countMs = 0, null: nullMs = 0 } = times
  const { 'warm-up': warmUpMs = 0, 'cool-down': coolDownMs = 0 } = times
  const commitment = commitments.find((one) => one === flagOf(call, 'commitment')) ?? 'processed'
  const seed = numberOf(call, 'seed', 1)
  const startedAt = new Date().toISOString()
  const line = new LiveLine()
  const stop = watchStopSignals()
  const outcome = await runRace({
    targets,
    subject: { unit, accounts, commitment, pollMs: numberOf(call, 'poll', pollMs) },
    timing: { warmUpMs, countMs, coolDownMs },
    nullMs,
    seed,
    signal: stop.signal,
    progress: (phase, seen) => line.show(`${phase}: ${seen.join(', ')} ${unit}s seen`),
  })
  line.clear()
  stop.release()
  if (!outcome.ok) return outcome
  const settings = {
    unit,
    commitment,
    seed,
    accounts: accounts.join(', '),
    ...Object.fromEntries(targets.map(({ label }, index) => [`endpoint ${index + 1}`, label])),
    ...Object.fromEntries(Object.entries(times).map(([name, ms]) => [`${name} ms`, ms])),
  }
  const result = resultOf(raceResult(outcome.value, settings, startedAt))
  const sentences = raceSentences(outcome.value)
  return reportResult(call, result, {
    title: `Race of ${targets.length} endpoints`,
    plots: [racePlot(outcome.value)],
    findings: [...sentences.slice(1), ...sentences.slice(0, 1)],
    shown: result.figures.filter(({ name }) => !name.endsWith('difference')),
    more: sentences,
  })
}

// Spends real lamports on a real cluster: beyond loopback it refuses to run without a limit.

const countMax = 100_000
const rateMax = 1_000
const tipMax = 1_000_000_000
const tipLamports = 1_000_000

export const benchLandVerb: Verb = {
  words: ['bench', 'land'],
  summary: 'Send tipped transfers through several routes and count which of them land.',
  examples: ['bench land --to http://127.0.0.1:8901 --watch websocket=ws://127.0.0.1:8900'],
  needsNoConfig: true,
  flags: [
    ...flagTable(`
    --to <url[,url…]> ...  Routes: endpoints that take sendTransaction; options token=, name= after
                           each.
    --watch <kind=url>     Where landing is seen: ${watchKinds.join(', ')}.
    --rpc <url>            Node for blockhash and balance [the first route].
    --rate <n>             Transactions per second over all routes [5].
    --count <n 1..${countMax}>  Transactions over all routes [200].
    --keypair <file>       Wallet that pays [on loopback a new one, airdropped].
    --spend-max <sol>      Most to spend; required beyond loopback.
    --tip <lamports 0..${tipMax}>  Tip of each [${tipLamports}].
    --tip-account <address> ...  Tip accounts of the routes [what each route names].
    --unit-price <n 0..1000000000>  Priority fee in micro-lamports per compute unit [0].
    --wait <time>          Time that a transaction has to land [60s].
    --seed <n 0..${seedMax}>  Seed of the order of routes [1].`),
    ...outputFlags,
  ],
  async run(call) {
    const asked = askedLand(call)
    if (!asked.ok) return asked
    const wallet = await walletOf(call, asked.value)
    return wallet.ok ? land(call, asked.value, wallet.value) : wallet
  },
}

interface AskedLand {
  readonly routes: readonly RouteTarget[]
  readonly watch: WatchTarget
  readonly rpc: Target
  readonly price: Price
  readonly tipAccounts: readonly Uint8Array[]
  readonly count: number
  readonly rate: number
  readonly spendMax: bigint | null
  readonly waitMs: number
}

function askedLand(call: Call): Outcome<AskedLand> {
  const routes = routesOf(call)
  if (!routes.ok) return routes
  const watchText = flagOf(call, 'watch')
  if (watchText === undefined)
    return misuse('--watch is missing, such as --watch geyser=http://127.0.0.1:10010')
  const watch = parseTarget('watch', watchText, watchKinds)
  if (!watch.ok) return watch
  const rpcText = flagOf(call, 'rpc')
  const rpc = rpcText === undefined ? null : parseTarget('rpc', `rpc=${rpcText}`, ['rpc'])
  if (rpc !== null && !rpc.ok) return rpc
  const spendMax = lamportsOf(call, 'spend-max')
  if (!spendMax.ok) return spendMax
  const targets = [...routes.value, watch.value, ...(rpc === null ? [] : [rpc.value])]
  const far = targets.find(({ url }) => !isLoopback(url.hostname))
  if (far !== undefined && spendMax.value === null)
    return misuse(`--spend-max is missing: ${far.label} may be a real cluster, give a limit in SOL`)
  if (far !== undefined && flagOf(call, 'keypair') === undefined)
    return misuse(`--keypair is missing: ${far.label} is not on this machine, and gives no airdrop`)
  const rate = parseRate(flagOf(call, 'rate') ?? '5')
  if (rate === null || rate > rateMax)
    return misuse(`--rate is transactions per second, such as 5, at most ${rateMax}`)
  const times = timesOf(call, { wait: '60s' })
  if (!times.ok) return times
  const tipAccounts = tipAccountsOf(call)
  if (!tipAccounts.ok) return tipAccounts
  return accept({
    routes: routes.value,
    watch: watch.value,
    rpc: rpc?.value ?? routes.value[0]!,
    price: {
      tipLamports: BigInt(numberOf(call, 'tip', tipLamports)),
      unitPrice: BigInt(numberOf(call, 'unit-price', 0)),
    },
    tipAccounts: tipAccounts.value,
    count: numberOf(call, 'count', 200),
    rate,
    spendMax: spendMax.value,
    waitMs: times.value.wait ?? 0,
  })
}

/** Routes of `--to url,token=…,name=…,url`: an option belongs to the URL before it. */
function routesOf(call: Call): Outcome<RouteTarget[]> {
  const texts: string[] = []
  for (const part of listOf(call, 'to') ?? []) {
    const isOption = /^(token|token-file|name)=/.test(part) && texts.length > 0
    if (isOption) texts.push(`${texts.pop()},${part}`)
    else texts.push(part)
  }
  if (texts.length === 0) return misuse('--to is missing, such as --to http://127.0.0.1:8901')
  const routes: RouteTarget[] = []
  for (const text of texts) {
    const route = parseTarget('to', `tpu=${text}`, ['tpu'])
    if (!route.ok) return route
    routes.push({ ...route.value, label: `${routes.length + 1} ${route.value.label}` })
  }
  return accept(routes)
}

function tipAccountsOf(call: Call): Outcome<Uint8Array[]> {
  const keys: Uint8Array[] = []
  for (const text of listOf(call, 'tip-account') ?? []) {
    const key = decodeKey(text)
    if (key === null) return misuse(`--tip-account ${text} is not the address of an account`)
    keys.push(key)
  }
  return accept(keys)
}

/** The wallet, once it is known to have enough for all transactions that may be sent. */
async function walletOf(call: Call, asked: AskedLand): Promise<Outcome<Keypair>> {
  const { rpc, count, price, spendMax } = asked
  const cost = costOf(price)
  const needed = BigInt(affordable(count, cost, spendMax)) * cost + rentLamports
  const file = flagOf(call, 'keypair')
  if (file === undefined) {
    const filled = await airdroppedWallet(rpc, needed)
    return filled.ok ? filled : { ok: false, refusal: describe(call, filled.refusal, rpc) }
  }
  const wallet = readKeypair(file)
  if (!wallet.ok) return wallet
  const balance = await balanceOf(rpc, wallet.value)
  if (!balance.ok) return { ok: false, refusal: describe(call, balance.refusal, rpc) }
  if (balance.value >= needed) return wallet
  const shown = `${rpc.label} shows ${balance.value} lamports in the wallet`
  return refuse('rejected', 'balance', `${shown}; the test may need ${needed}`)
}

/** With a hint where a route was asked that is no node. */
function describe(call: Call, refusal: Refusal, { label }: Target): Refusal {
  const isRoute = flagOf(call, 'rpc') === undefined && refusal.kind === 'rejected'
  const hint = isRoute ? '; give --rpc, a node that answers' : ''
  return { ...refusal, message: `${label} ${refusal.message}${hint}` }
}

async function land(call: Call, asked: AskedLand, wallet: Keypair): Promise<Outcome<Report>> {
  const { routes, watch, rpc, price, count, rate, spendMax, waitMs } = asked
  const seed = numberOf(call, 'seed', 1)
  const startedAt = new Date().toISOString()
  const line = new LiveLine()
  const stop = watchStopSignals()
  const outcome = await runLand({
    ...price,
    ...{ routes, watch, rpc, wallet, count, spendMax, waitMs, seed },
    tipAccounts: asked.tipAccounts,
    ratePerSecond: rate,
    signal: stop.signal,
    progress: (sent, landed) => line.show(`${sent} of ${count} sent, ${landed} landed`),
  })
  line.clear()
  stop.release()
  if (!outcome.ok) return outcome
  const labels = routes.map(({ label }) => label)
  const scores = scoreRoutes(outcome.value, labels)
  const settings = {
    ...{ count, rate, seed, watch: watch.label, 'wait ms': waitMs },
    'tip lamports': Number(price.tipLamports),
    'unit price': Number(price.unitPrice),
    'spend-max lamports': spendMax === null ? null : Number(spendMax),
    ...Object.fromEntries(labels.map((label, index) => [`route ${index + 1}`, label])),
  }
  const result = resultOf(landResult(outcome.value, scores, { settings, startedAt }))
  const sentences = landSentences(scores)
  const shown = result.figures.filter(({ name }) => name !== 'spent')
  return reportResult(call, result, {
    title: `Landing through ${routes.length} ${routes.length === 1 ? 'route' : 'routes'}`,
    plots: [landPlot(outcome.value, scores)],
    findings: sentences,
    shown,
    more: sentences,
  })
}

export const benchVerbs: readonly Verb[] = [
  benchRaceVerb,
  benchLandVerb,
  benchLoadVerb,
  benchCompareVerb,
]

// The checker: what must hold after any sequence of faults, each property by what clients counted and
// what the node itself has. A property that was not checked says why.
import { existsSync, readFileSync } from 'node:fs'
import { until } from '../testkit/until.ts'
import { UsageBill } from '../testkit/usage-bill.ts'
import { type Load, queryAt, statusWith } from './load.ts'
import type { Readers } from './readers.ts'
import type { Gateway, Stage } from './stage.ts'

export interface Property {
  readonly name: string
  /** Null: not checked. */
  readonly holds: boolean | null
  readonly detail: string
}

export interface Checked {
  readonly stage: Stage
  readonly readers: Readers
  readonly load: Load
  /** Bound of a wait for what must become true. */
  readonly hangMs: number
}

const statusesPerCall = 200
const listedMax = 5

export async function checkAll(checked: Checked): Promise<Property[]> {
  await checked.readers.finish(checked.hangMs)
  return [
    streams(checked),
    signatures(checked),
    await events(checked),
    await landed(checked),
    await subscriptions(checked),
    credentials(checked),
    await usage(checked),
    await bill(checked),
    ...(await index(checked)),
    shreds(checked),
    deaths(checked),
  ]
}

function property(name: string, problems: readonly string[], detail: string): Property {
  const holds = problems.length === 0
  const more = problems.length > listedMax ? ` and ${problems.length - listedMax} more` : ''
  const listed = `${problems.slice(0, listedMax).join('; ')}${more}`
  return { name, holds, detail: holds ? detail : `${listed} (${detail})` }
}

function streams({ readers }: Checked): Property {
  const { audit, pubsub } = readers
  const gaps = pubsub.flatMap(({ problems }) => problems.map(({ message }) => message))
  const counts = `${audit.lost} lost, ${audit.repeated} repeated`
  const wrong = [...audit.wrong].map(
    ([who, { count, first, last }]) => `${who}: ${count} in slots ${first} to ${last}`,
  )
  const problems = [...wrong, ...readers.problems, ...new Set(gaps), ...audit.problems]
  const detail = `${audit.slots} slots, ${audit.messages} messages, ${readers.cuts} cuts, ${counts}`
  return property('PubSub and gRPC clients have everything once', problems, detail)
}

function signatures({ readers }: Checked): Property {
  const waited = readers.pubsub.flatMap((reader) => [...reader.signatures])
  const wrong = waited.filter(([, { told }]) => told !== 1)
  const problems = wrong.map(([signature, { told }]) => `${signature} was notified ${told} times`)
  const name = 'signatures that clients wait for are notified once'
  return property(name, problems, `${waited.length} signatures`)
}

async function events({ stage, readers }: Checked): Promise<Property> {
  const name = 'event clients have every number once, as the database has it'
  if (stage.postgres === null) return { name, holds: null, detail: 'no PostgreSQL' }
  const found = readers.events.flatMap((rover) => rover.problems)
  const snapshots = readers.events.reduce((sum, one) => sum + one.snapshots, 0)
  if (snapshots > 0) found.push(`${snapshots} resumed clients got a snapshot`)
  const problems = [...new Set(found), ...(await readers.checkFrames())]
  const frames = readers.events.reduce((sum, one) => sum + one.frames, 0)
  return property(name, problems, `${frames} frames`)
}

async function landed({ stage, load, hangMs }: Checked): Promise<Property> {
  const missing = new Map(load.landed.map((one) => [one.signature, one]))
  const isDone = async () => {
    const all = [...missing.keys()]
    for (let at = 0; at < all.length; at += statusesPerCall) {
      const some = all.slice(at, at + statusesPerCall)
      const options = { searchTransactionHistory: true }
      const { result } = await stage.node.call('getSignatureStatuses', some, options)
      for (const [index, status] of result.value.entries())
        if (status?.confirmationStatus === 'finalized') missing.delete(some[index]!)
    }
    return missing.size === 0
  }
  await until(isDone, 'transactions', hangMs).catch(() => {})
  const problems = [...missing.values()].map(({ signature, route }) => `${route}: ${signature}`)
  const by = (name: string) => load.landed.filter(({ route }) => route === name).length
  const detail = `${by('rpc')} by rpc, ${by('tpu')} by tpu`
  return property('acknowledged transactions are in the chain', problems, detail)
}

async function subscriptions({ stage, load }: Checked): Promise<Property> {
  const problems: string[] = []
  const expectStatus = async (gateway: Gateway, token: string, isGood: boolean, what: string) => {
    let status: number | null = null
    const holds = async () => {
      status = await statusWith(gateway, token)
      return isGood ? status === 200 : status === 401 || status === 403
    }
    await until(holds, 'the registry', 5_000).catch(() => {
      problems.push(`${what}: ${status} at gateway ${gateway.number}`)
    })
  }
  const known = load.subscriptions.filter(({ state }) => state !== null)
  for (const gateway of stage.gateways)
    for (const { label, token, oldToken, state } of known) {
      await expectStatus(gateway, token, state === 'active', `${label}, ${state}`)
      if (oldToken !== null) await expectStatus(gateway, oldToken, false, `old token of ${label}`)
    }
  const detail = `${known.length} of ${load.subscriptions.length} with every change answered`
  return property('acknowledged changes of subscriptions are in force', problems, detail)
}

export function credentials({ load }: Pick<Checked, 'load'>): Property {
  const { calls, queries, rejected } = load
  const problems = [...rejected].map(([what, count]) => `${count} times ${what}`)
  const detail =
    `${calls.answered} calls and ${queries.answered} queries answered, ` +
    `${calls.refused} calls refused, ${queries.failed} queries failed`
  return property('valid credentials are never refused as not valid', problems, detail)
}

async function usage({ stage, load, hangMs }: Checked): Promise<Property> {
  const { sent, answered, forgiven, failed } = load.calls
  let counted = 0
  const isEnough = async () => {
    counted = await callsCounted(stage, load.metered.subscription.id)
    return counted >= answered - forgiven
  }
  await until(isEnough, 'usage', Math.min(hangMs, 15_000)).catch(() => {})
  const problems: string[] = []
  if (counted < answered - forgiven) problems.push(`only ${counted} counted`)
  if (counted > sent) problems.push(`${counted} counted, more than were sent`)
  const detail =
    `${counted} counted; ${answered} answered, ${failed} of ${sent} without an answer, ` +
    `${forgiven} answered in the second before kill -9`
  return property('usage is what clients counted', problems, detail)
}

async function callsCounted(stage: Stage, id: string): Promise<number> {
  if (stage.postgres === null) {
    const shown = await stage.gateways[0]!.operator(`/v1/usage?subscription=${id}`)
    const days = (shown?.days ?? []) as { calls: number }[]
    return days.reduce((sum, { calls }) => sum + calls, 0)
  }
  const text = 'SELECT sum(calls) FROM usage_days WHERE id = $1'
  const rows = await stage.postgres.sql<{ sum: string | null }>(text, [id])
  return Number(rows[0]?.sum ?? 0)
}

async function bill({ stage, load }: Checked): Promise<Property> {
  const { id } = load.metered.subscription
  const read = () => {
    const taken = new UsageBill()
    for (const { usageFile } of stage.gateways)
      if (existsSync(usageFile)) taken.take(wholeLines(usageFile))
    return taken
  }
  const callsOf = (taken: UsageBill) => taken.days(id).reduce((sum, { calls }) => sum + calls, 0)
  const problems: string[] = []
  let counted = 0
  const isSame = async () => {
    counted = await callsCounted(stage, id)
    return callsOf(read()) === counted
  }
  await until(isSame, 'the bill', 15_000).catch(() => {
    problems.push(`${callsOf(read())} billed, ${counted} counted`)
  })
  const taken = read()
  if (taken.changed > 0) problems.push(`${taken.changed} records changed under their id`)
  return property('the bill is the usage', problems, `${taken.records} records`)
}

/** A line that a full disk has cut off is no record. */
function wholeLines(file: string): string {
  const isWhole = (line: string) => {
    try {
      return typeof JSON.parse(line) === 'object'
    } catch {
      return false
    }
  }
  return readFileSync(file, 'utf8').split('\n').filter(isWhole).join('\n')
}

async function index(checked: Checked): Promise<Property[]> {
  const { stage, readers } = checked
  const due = await chainOf(checked)
  const properties: Property[] = []
  for (const gateway of stage.gateways) {
    const name = `the index of gateway ${gateway.number} is the chain, each row once`
    const { from, last } = readers
    const where = `WHERE slot BETWEEN ${from} AND ${last}`
    const newest = async () =>
      Number((await queryAt(gateway, stage, 'SELECT max(slot) FROM blocks'))?.[0] ?? 0)
    await until(async () => (await newest()) > last, 'rows', checked.hangMs).catch(() => {})
    const blocks = await queryAt(gateway, stage, `SELECT slot, blockhash FROM blocks ${where}`)
    const rows = await queryAt(gateway, stage, `SELECT slot, signature FROM transactions ${where}`)
    const found = blocks === null || rows === null ? ['queries fail'] : []
    found.push(...differences('block', due.blocks, blocks ?? []))
    found.push(...differences('transaction', due.transactions, rows ?? []))
    const detail = `${blocks?.length} blocks, ${rows?.length} transactions`
    properties.push(property(name, found, detail))
  }
  return properties
}

/** Lines of all finalized blocks and transactions of the node itself. */
async function chainOf({ stage, readers }: Checked) {
  const blocks: string[] = []
  const transactions: string[] = []
  const { from, last } = readers
  const finalized = async () => Number((await stage.node.call('getSlot')).result)
  await until(async () => (await finalized()) >= last, 'the last slot to be final')
  const slots = (await stage.node.call('getBlocks', from, last)).result as number[]
  for (const slot of slots) {
    const options = { transactionDetails: 'signatures', maxSupportedTransactionVersion: 0 }
    const { result } = await stage.node.call('getBlock', slot, { ...options, rewards: false })
    blocks.push(`${slot}\t${result.blockhash}`)
    for (const signature of result.signatures) transactions.push(`${slot}\t${signature}`)
  }
  return { blocks, transactions }
}

function differences(what: string, due: readonly string[], rows: readonly string[]): string[] {
  const left = new Map<string, number>()
  for (const line of due) left.set(line, (left.get(line) ?? 0) + 1)
  for (const line of rows) left.set(line, (left.get(line) ?? 0) - 1)
  const named = (line: string) => `${what} ${line.replace('\t', ' ')}`
  return [...left]
    .filter(([, count]) => count !== 0)
    .map(([line, count]) => `${count > 0 ? 'lost' : 'too many of'} ${named(line)}`)
}

function shreds({ stage }: Checked): Property {
  const { received, repeated } = stage.shreds
  const problems = repeated > 0 ? [`${repeated} shreds came twice`] : []
  return property('no shred is sent twice', problems, `${received} received`)
}

function deaths({ stage }: Checked): Property {
  const problems = stage.gateways.flatMap((gateway) => gateway.deaths)
  const failed = stage.gateways.flatMap((gateway) => gateway.failedStarts)
  const detail = `${failed.length} starts failed${failed.length > 0 ? `: ${failed[0]}` : ''}`
  return property('no gateway ended by itself', problems, detail)
}

// Accepted transactions per second, each of a fresh signer, through the whole decision of the TPU
// Sender with one and two verify workers, beside what openssl verifies on one core.
// Thread: main of the bench process; the workers are those of the service.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { systemClock } from '../../src/base/clock.ts'
import { accept } from '../../src/base/errors.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { Meters } from '../../src/base/telemetry/meters.ts'
import { VerifyPool } from '../../src/base/threads/verify-pool.ts'
import { Verifier } from '../../src/chain/solana/verify.ts'
import { TpuHandler } from '../../src/products/tpu/handle.ts'
import { declareTpuMeters } from '../../src/products/tpu/meters.ts'
import { TipLog } from '../../src/products/tpu/submission.ts'
import { TipAccounts } from '../../src/products/tpu/tip-accounts.ts'
import type { Bench, Contender, Measurement, RoundContext } from '../lib/bench.ts'
import { LatencyHistogram } from '../lib/histogram.ts'
import { signedTransactions, tipAccounts } from '../lib/tipped-transactions.ts'

const run = promisify(execFile)
/** More signers than the verifier remembers keys: each one is new to it when its turn comes. */
const signers = 8_192
const smokeSigners = 256
const inFlight = 128
const openssl = 'openssl speed ed25519, one core'
const alone = 'verify alone, one thread'
const one = 'accepted, 1 verify worker'
const two = 'accepted, 2 verify workers'

let made: Uint8Array[] | null = null
const transactions = ({ smoke }: RoundContext) => {
  made ??= signedTransactions(smoke === true ? smokeSigners : signers, { tip: true })
  return made
}

export const bench: Bench = {
  name: 'tpu-accepted',
  question: 'How many tipped transactions of fresh signers are verified and accepted per second?',
  cores: 3,
  baseline: { name: openssl, missing: opensslMissing, run: ({ seconds }) => opensslSpeed(seconds) },
  candidates: [{ name: alone, run: verifyAlone }, accepted(one, 1), accepted(two, 2)],
  goals: [{ contender: one, to: openssl, figure: 'opsPerSecond', atLeast: 0.75 }],
  smoke: [alone, two],
  verify({ evidence }) {
    const { good = 0, asked = 0 } = (evidence ?? {}) as { good?: number; asked?: number }
    return good === asked && asked > 0 ? undefined : `${good} of ${asked} were good`
  },
}

function accepted(name: string, threads: number): Contender {
  let pool: VerifyPool | null = null
  return {
    name,
    async prepare(context) {
      pool = new VerifyPool({ log: silentLog, threads })
      if (context.smoke !== true) await submitAll(pool, { ...context, seconds: 0.3 })
    },
    run: (context) => submitAll(pool!, context),
    async close() {
      await pool?.stop()
    },
  }
}

/** Keeps so many submissions waiting; a new handler each time the signers are through. */
async function submitAll(pool: VerifyPool, context: RoundContext): Promise<Measurement> {
  const histogram = new LatencyHistogram()
  const all = transactions(context)
  let handler = newHandler(pool)
  let next = 0
  let asked = 0
  let good = 0
  const beganMs = performance.now()
  const endMs = beganMs + context.seconds * 1000
  const lane = async () => {
    while (performance.now() < endMs) {
      if (next === all.length) {
        next = 0
        handler = newHandler(pool)
      }
      const startedMs = performance.now()
      const address = `10.0.${next >> 8}.${next & 255}`
      asked++
      const outcome = await handler.submit(all[next++]!, { address, beganMs: startedMs })
      histogram.recordNs((performance.now() - startedMs) * 1e6)
      if (outcome.ok) good++
    }
  }
  await Promise.all(Array.from({ length: inFlight }, lane))
  const took = (performance.now() - beganMs) / 1000
  return {
    opsPerSecond: good / took,
    latencyUs: histogram.summary(),
    evidence: { good, asked },
  }
}

function newHandler(verifier: VerifyPool): TpuHandler {
  return new TpuHandler({
    accounts: new TipAccounts(tipAccounts),
    verifier,
    forwarder: { has: () => false, take: () => accept(null) },
    meters: declareTpuMeters(new Meters()),
    tips: new TipLog(),
    clock: systemClock,
  })
}

async function verifyAlone(context: RoundContext): Promise<Measurement> {
  const verifier = new Verifier()
  const all = transactions(context)
  const endMs = performance.now() + context.seconds * 1000
  const beganMs = performance.now()
  let good = 0
  let asked = 0
  while (performance.now() < endMs) if (verifier.verify(all[asked++ % all.length]!)) good++
  const took = (performance.now() - beganMs) / 1000
  return { opsPerSecond: good / took, evidence: { good, asked } }
}

async function opensslMissing(): Promise<string | undefined> {
  return run('openssl', ['version']).then(
    () => undefined,
    () => 'no openssl',
  )
}

async function opensslSpeed(seconds: number): Promise<Measurement> {
  // By the clock, as everything else here; on its own it counts processor time.
  const whole = String(Math.max(1, Math.round(seconds)))
  const words = ['speed', '-elapsed', '-seconds', whole, 'ed25519']
  const { stdout } = await run('openssl', words)
  const line = stdout.split('\n').find((each) => each.includes('(Ed25519)')) ?? ''
  const perSecond = Number(line.trim().split(/\s+/).at(-1))
  const isRead = Number.isFinite(perSecond) && perSecond > 0
  return { opsPerSecond: perSecond, evidence: { good: isRead ? 1 : 0, asked: 1 } }
}

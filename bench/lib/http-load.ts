// Puts a server under the load of kept-alive connections, from a process of its own: a C program
// where there is a compiler (it needs a fraction of a core), else a client in JavaScript.
// Thread: main of the bench process.

import { startProcess } from '../../test/testkit/process.ts'
import type { Measurement } from './bench.ts'
import { buildNative, compilerMissing, runNative } from './native.ts'

export interface HttpLoad {
  readonly host: string
  readonly port: number
  readonly seconds: number
  readonly connections: number
  /** The whole request as it goes over the wire; ######## becomes another number each time. */
  readonly request: string
  /** What every answer must contain. */
  readonly expected: string
  /** Requests a second that are begun whatever the answers do; without it as fast as they come.
   *  Needs a compiler. */
  readonly rate?: number
}

export interface LoadAnswer {
  readonly ops: number
  readonly p50: number
  readonly p99: number
  readonly p999: number
  readonly answers: number
  readonly wrong: number
}

/** A call of JSON-RPC as it goes over the wire. */
export function jsonPost(token: string, body: string): string {
  const lines = [
    'POST / HTTP/1.1',
    'host: 127.0.0.1',
    'content-type: application/json',
    `x-token: ${token}`,
    `content-length: ${body.length}`,
  ]
  return `${lines.join('\r\n')}\r\n\r\n${body}`
}

export async function httpLoad(load: HttpLoad): Promise<Measurement> {
  const { ops, p50, p99, p999, answers, wrong } = await runLoad(load)
  return {
    opsPerSecond: ops,
    latencyUs: { p50, p99, p999 },
    evidence: { answers, wrong },
  }
}

/** Answers per second of the server's processor time, which other programs disturb less. */
export async function perCpuSecond(
  cpuSeconds: () => number | Promise<number>,
  drive: () => Promise<Measurement>,
): Promise<Measurement> {
  const before = await cpuSeconds()
  const measured = await drive()
  const used = (await cpuSeconds()) - before
  return { ...measured, opsPerSecond: Number(measured.evidence?.answers) / used }
}

export function verifyLoad({ evidence }: Measurement): string | undefined {
  const { answers = 0, wrong } = evidence ?? {}
  if (answers === 0) return 'no answers'
  return wrong === 0 ? undefined : `${wrong} of ${answers} answers are wrong`
}

async function runLoad(load: HttpLoad): Promise<LoadAnswer> {
  if ((await compilerMissing()) === undefined) {
    const { host, port, seconds, connections, request, expected, rate } = load
    const words = [host, port, seconds, connections, request, expected]
    if (rate !== undefined) words.push(rate)
    // Reason for the cast: the program prints exactly these numbers.
    return (await runNative(await buildNative('http-load'), words)) as unknown as LoadAnswer
  }
  const client = startProcess(new URL('../load/clients/http-client.js', import.meta.url))
  try {
    return await client.call<LoadAnswer>('load', load)
  } finally {
    await client.stop()
  }
}

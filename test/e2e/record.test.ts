// An incident, from the command to the comparison: a server records its traffic, the file is
// replayed elsewhere, and a file or a build that differs is found.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  copyFileSync,
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client, credentials } from '@grpc/grpc-js'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { packageRoot } from '../../src/base/package-root.ts'
import { RecordingReader, recordingKind } from '../../src/base/recording-file.ts'
import { askOperator } from '../../src/base/transport/unix-socket.ts'
import type { RecordState } from '../../src/operator/record/recorder.ts'
import { Subscription, withToken } from '../testkit/grpc-stage.ts'
import { littleTraffic, type Server, sluice, sluiceHere, startServer } from '../testkit/server.ts'
import { canMount, mountSmallDisk } from '../testkit/small-disk.ts'
import { until } from '../testkit/until.ts'

const secret = 'query-secret-of-a-customer'
let server: Server
let folder: string
let file: string

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'record-'))
  file = join(folder, 'incident', 'a.rec')
  server = await startServer({ flags: littleTraffic })
})

afterAll(async () => {
  await server?.dispose()
  rmSync(folder, { recursive: true, force: true })
})

async function state(): Promise<RecordState | null> {
  const answer = await askOperator(server.data, 'record-state')
  return answer.ok ? (answer.value as RecordState | null) : null
}

async function getSlot(): Promise<Response> {
  return fetch(`${server.url('rpc')}/?note=${secret}`, {
    method: 'POST',
    headers: { 'x-token': server.token, 'content-type': 'application/json' },
    body: '{"jsonrpc":"2.0","id":1,"method":"getSlot","params":[{"commitment":"processed"}]}',
  })
}

/** Traffic on rpc, websocket and grpc until some of each was answered by what was recorded. */
async function traffic(): Promise<void> {
  const url = server.url('websocket')
  const socket = new WebSocket(url, { headers: { 'x-token': server.token } })
  const client = new Client(new URL(server.url('grpc')).host, credentials.createInsecure())
  try {
    let notified = 0
    socket.on('message', (text) => {
      if (String(text).includes('slotNotification')) notified++
    })
    socket.on('open', () => socket.send('{"jsonrpc":"2.0","id":1,"method":"slotSubscribe"}'))
    const stream = new Subscription(client, withToken(server.token))
    stream.ask({ slots: { s: {} }, commitment: 0 })
    let streamed = 0
    await until(async () => {
      const { headers } = await getSlot()
      if (headers.get('x-sluice-source') === 'stream') streamed++
      return streamed > 3 && notified > 3 && stream.of('slot').length > 3
    }, 'answers, notifications and updates')
    stream.stream.cancel()
  } finally {
    socket.terminate()
    client.close()
  }
}

it('records traffic, and a replay has no difference', async () => {
  const recording = sluice(server.data, 'record', '--for=1h', '--calls=whole', `--out=${file}`)
  await until(async () => (await state())?.isOver === false, 'a recording')
  const second = await sluiceHere(server.data, 'record', '--for=1s')
  expect([second.code, second.stderr]).toEqual([
    1,
    expect.stringContaining(`a recording runs already: ${file}`),
  ])
  await traffic()
  await askOperator(server.data, 'record-stop')
  const recorded = await recording
  expect([recorded.code, recorded.stdout]).toEqual([0, expect.stringContaining('sealed with')])
  expect(statSync(file).mode & 0o777).toBe(0o600)
  expect(statSync(join(folder, 'incident')).mode & 0o777).toBe(0o700)
  const replayed = await sluice(server.data, 'record', 'replay', file, '--json')
  const { frames, answers, shreds, tornBytes } = JSON.parse(replayed.stdout)
  expect(frames).toMatchObject({ differing: 0, differences: [] })
  expect(frames.compared).toBeGreaterThan(100)
  expect(answers).toMatchObject({ differing: 0 })
  expect(answers.compared).toBeGreaterThan(0)
  expect(shreds.accepted).toBeGreaterThan(0)
  expect([tornBytes, replayed.code]).toEqual([0, 0])
})

/** A place in the code, what stands there in a build with a fault, and what differs then. */
const faults = [
  [`"root":\${root},"slot":\${slot}}`, `"root":\${root},"slot":0}`, 'default: pubsub slot'],
  [
    'case "slot": return this.#slots[',
    'case "slot": return update.status === 0 ? 0 : this.#slots[',
    'default: grpc processed',
  ],
  ['encodedText(String(slot))', 'encodedText(String(slot - 1))', 'getSlot'],
] as const

/** The built program in a folder of its own, with every fault. Returns its main file. */
function faultyBuild(): string {
  const [from, to] = [packageRoot(), join(folder, 'faulty')]
  for (const part of ['package.json', 'proto', 'dist/src', 'dist/chunks', 'dist/workers'])
    cpSync(join(from, part), join(to, part), {
      recursive: true,
      filter: (path) => !path.endsWith('.map') && !path.endsWith('.d.ts'),
    })
  symlinkSync(join(from, 'node_modules'), join(to, 'node_modules'))
  const chunks = join(to, 'dist', 'chunks')
  const texts = readdirSync(chunks).map((name) => [name, readFileSync(join(chunks, name))] as const)
  for (const [place, fault] of faults) {
    const found = texts.filter(([, text]) => text.includes(place))
    expect([place, found.length]).not.toEqual([place, 0])
    for (const [name] of found) {
      const text = readFileSync(join(chunks, name), 'utf8')
      writeFileSync(join(chunks, name), text.replaceAll(place, fault))
    }
  }
  return join(to, 'dist', 'src', 'main.js')
}

it('finds the faults of another build: a field, an update that is left out, an answer', async () => {
  const child = spawn(process.execPath, [faultyBuild(), 'record', 'replay', file, '--json'])
  let text = ''
  child.stdout.on('data', (chunk) => {
    text += chunk
  })
  const [code] = await once(child, 'close')
  const { frames, answers } = JSON.parse(text)
  const differing = new Set<string>()
  for (const { stream } of frames.differences) differing.add(stream)
  for (const { method } of answers.differences) differing.add(method)
  for (const [, , expected] of faults) expect([...differing]).toContain(expected)
  expect(frames.notCompared).toEqual([])
  expect(frames.identical).toBeGreaterThan(0)
  expect(answers.differing).toBe(answers.compared)
  expect(code).toBe(1)
})

it('keeps no token, header or query string', () => {
  const bytes = readFileSync(file)
  for (const absent of [server.token, secret, 'x-token', 'api-key', 'user-agent', '127.0.0.1'])
    expect([absent, bytes.includes(absent)]).toEqual([absent, false])
  expect(bytes.includes('slotSubscribe')).toBe(true)
})

it('has updates, shreds, events and calls, and what a cut file lacks is named', async () => {
  const reader = new RecordingReader(file)
  const kinds = new Set([...reader.records()].map(({ kind }) => kind))
  reader.close()
  expect([...kinds].sort()).toEqual(Object.values(recordingKind))
  const cut = join(folder, 'cut.rec')
  copyFileSync(file, cut)
  writeFileSync(cut, readFileSync(cut).subarray(0, 60_000))
  const replayed = await sluiceHere(server.data, 'record', 'replay', cut)
  expect(replayed.code).toBe(1)
  expect(replayed.stdout).toMatch(/ends early, it was cut: \d+ bytes after its last whole record/)
  expect(replayed.stdout).toContain('none compared: the recording is not sealed')
})

it('never overwrites a file, and needs a server', async () => {
  const again = await sluiceHere(server.data, 'record', '--for=1s', `--out=${file}`)
  expect([again.code, again.stderr]).toEqual([1, expect.stringContaining(`${file} exists`)])
  const nowhere = await sluiceHere(join(folder, 'nowhere'), 'record')
  expect([nowhere.code, nowhere.stderr]).toEqual([1, expect.stringContaining('no server runs')])
  for (const flag of ['--for=soon', '--bytes=1', '--calls=some', '--loud'])
    expect((await sluiceHere(server.data, 'record', flag)).code).toBe(2)
})

it.skipIf(!canMount())(
  'goes on serving when the disk is full, and says so in one line',
  async () => {
    const disk = mountSmallDisk('256k')
    try {
      const out = join(disk.path, 'a.rec')
      const recorded = await sluiceHere(server.data, 'record', '--for=1h', `--out=${out}`)
      expect(recorded.code).toBe(1)
      expect(recorded.stderr).toContain('recording ended: ENOSPC')
      expect((await getSlot()).status).toBe(200)
      const lines = server.stderr().match(/recording failed, the service goes on/g)
      expect(lines?.length).toBe(1)
    } finally {
      disk.unmount()
    }
  },
)

it('is whole up to its last record when command and server are killed', async () => {
  const out = join(folder, 'killed.rec')
  const main = join(packageRoot(), 'dist', 'src', 'main.js')
  const words = ['record', '--for=1h', `--out=${out}`, `--data=${server.data}`]
  const command = spawn(process.execPath, [main, ...words], { stdio: 'ignore' })
  const bytesNow = async () => (await state())?.bytes ?? 0
  const isRunning = async () => (await state())?.isOver === false
  await until(async () => (await bytesNow()) > 0 && (await isRunning()), 'records')
  command.kill('SIGKILL')
  await once(command, 'exit')
  const early = await sluiceHere(server.data, 'record', 'seal', out)
  expect([early.code, early.stderr]).toEqual([1, expect.stringContaining('is being recorded')])
  const bytes = await bytesNow()
  await until(async () => (await bytesNow()) > bytes + 100_000, 'records without the command')
  await server.stop('SIGKILL')
  const endsEarly = 'the recording ends early, it was cut'
  const unsealed = await sluiceHere(server.data, 'record', 'replay', out)
  expect([unsealed.code, unsealed.stdout]).toEqual([1, expect.stringContaining(endsEarly)])
  const sealed = await sluiceHere(server.data, 'record', 'seal', out)
  expect([sealed.code, sealed.stdout]).toEqual([0, expect.stringContaining('sealed with')])
  const replayed = await sluiceHere(server.data, 'record', 'replay', out)
  expect([replayed.code, replayed.stdout]).toEqual([0, expect.stringContaining(endsEarly)])
  expect(replayed.stdout).toMatch(/frames: [1-9]\d* compared, \d+ identical, 0 differences/)
  const again = await sluiceHere(server.data, 'record', 'seal', out)
  expect([again.code, again.stderr]).toEqual([1, expect.stringContaining('was sealed by')])
})

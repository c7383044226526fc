// Long answers through the proxy, with endpoint and node in processes of their own.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { request } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { root } from '../testkit/tree.ts'
import { until } from '../testkit/until.ts'

const MEGABYTE = 1_000_000
const longBytes = 50 * MEGABYTE
const children: ChildProcess[] = []
afterEach(async () => {
  for (const child of children.splice(0)) {
    child.kill('SIGKILL')
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  }
})

async function start<T>(file: string, ...words: string[]): Promise<T & { pid: number }> {
  const child = fork(join(root, 'test/testkit', file), words)
  children.push(child)
  const [told] = (await once(child, 'message')) as [T]
  return { ...told, pid: child.pid! }
}

async function stage(...words: string[]) {
  const node = await start<{ port: number }>('blob-node.mjs', ...words)
  const endpoint = await start<{ port: number; token: string }>(
    'proxy-child.mjs',
    `http://127.0.0.1:${node.port}`,
  )
  return { node, endpoint }
}

/** Peak and present memory of a process, in bytes. */
function memoryOf(pid: number): { now: number; peak: number } {
  const text = readFileSync(`/proc/${pid}/status`, 'utf8')
  const of = (name: string) => Number(new RegExp(`${name}:\\s+(\\d+) kB`).exec(text)?.[1]) * 1024
  return { now: of('VmRSS'), peak: of('VmHWM') }
}

interface Read {
  bytes: number
  isWhole: boolean
  head: string
  tail: string
}

/** Reads an answer chunk by chunk, keeping none of it; `pause` waits behind each chunk. */
function readAnswer(
  { port, token }: { port: number; token: string },
  body: string,
  pause?: () => Promise<void>,
): Promise<Read> {
  return new Promise((resolve) => {
    const read = { bytes: 0, isWhole: false, head: '', tail: '' }
    const options = { port, method: 'POST', headers: headersOf(token) }
    const asked = request(options, async (response) => {
      try {
        for await (const chunk of response) {
          read.bytes += chunk.length
          if (read.head.length < 200) read.head += chunk.toString('latin1', 0, 200)
          read.tail = (read.tail + chunk.toString('latin1', chunk.length - 100)).slice(-100)
          await pause?.()
        }
        read.isWhole = response.complete
      } catch {}
      resolve(read)
    })
    asked.on('error', () => resolve(read))
    asked.end(body)
  })
}

const headersOf = (token: string) => ({ 'content-type': 'application/json', 'x-token': token })
const call = (id: string, method = 'getProgramAccounts') =>
  `{"jsonrpc":"2.0","id":${id},"method":"${method}","params":["p"]}`

it('passes 50 MB on with less than 40 MB of memory, to fast and to slow readers', async () => {
  const { endpoint } = await stage(String(longBytes))
  await readAnswer(endpoint, call('1', 'getBalance'))
  const idle = memoryOf(endpoint.pid).now
  const fast = await readAnswer(endpoint, call('"mine"'))
  const turn = () => new Promise<void>((resolve) => setTimeout(resolve, 1))
  const slow = await readAnswer(endpoint, call('7'), turn)
  const both = await Promise.all([
    readAnswer(endpoint, call('8')),
    readAnswer(endpoint, call('9'), turn),
  ])
  for (const read of [fast, slow, ...both]) {
    expect(read.isWhole).toBe(true)
    expect(read.bytes).toBeGreaterThan(longBytes)
    expect(read.head).toContain('{"jsonrpc":"2.0","result":[{"pubkey":"kkk')
  }
  expect(fast.tail.endsWith('},null],"id":"mine"}\n')).toBe(true)
  expect(slow.tail.endsWith('},null],"id":7}\n')).toBe(true)
  expect((memoryOf(endpoint.pid).peak - idle) / MEGABYTE).toBeLessThan(40)
})

it('streams inside a batch, in order', async () => {
  const { endpoint } = await stage(String(2 * MEGABYTE))
  const items = [call('1', 'getBalance'), call('2'), call('3', 'getSlot'), call('4')]
  const answer = await fetch(`http://127.0.0.1:${endpoint.port}`, {
    method: 'POST',
    headers: headersOf(endpoint.token),
    body: `[${items.join(',')}]`,
  })
  const list = (await answer.json()) as { id: number; result: unknown[] }[]
  expect(list.map(({ id }) => id)).toEqual([1, 2, 3, 4])
  expect(list[1]!.result.at(-1)).toBe(null)
  expect(list[3]!.result).toEqual(list[1]!.result)
})

it('cuts the connection when the node dies in mid-stream', async () => {
  const { endpoint } = await stage(String(longBytes), String(5 * MEGABYTE))
  const read = await readAnswer(endpoint, call('1'))
  expect(read.bytes).toBeGreaterThan(MEGABYTE)
  expect(read.isWhole).toBe(false)
})

it('stops the node when the customer leaves in mid-stream', async () => {
  const { endpoint, node } = await stage(String(2000 * MEGABYTE))
  const socket = connect(endpoint.port, '127.0.0.1')
  const body = call('1')
  const lines = Object.entries({
    ...headersOf(endpoint.token),
    host: 'x',
    'content-length': body.length,
  })
  socket.write(
    `POST / HTTP/1.1\r\n${lines.map((line) => line.join(': ')).join('\r\n')}\r\n\r\n${body}`,
  )
  await once(socket, 'data')
  socket.destroy()
  // A node that goes on writing would use its processor without end.
  const ticks = () => Number(readFileSync(`/proc/${node.pid}/stat`, 'utf8').split(' ')[13])
  let before = -1
  await until(async () => {
    const last = before
    before = ticks()
    await new Promise((resolve) => setTimeout(resolve, 200))
    return last === before
  }, 'the node to be at rest')
})

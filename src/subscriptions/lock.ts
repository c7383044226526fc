// One server per data folder. Thread: main. Commands do not take the lock: the registry keeps them
// apart from the server by itself.
// The lock is an abstract Unix socket named after the folder's inode: the kernel grants it to one
// process of the machine and takes it back when that process dies, however it dies. Where there
// are none (not Linux), a socket file in the folder stands in, cleared when nobody answers.
import { rmSync, statSync } from 'node:fs'
import { connect, createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { accept, type Outcome, refuse } from '../base/errors.ts'
import { makeFolder } from './folder.ts'

export interface DataLock {
  release(): Promise<void>
}

const answerMsMax = 1000

/** Takes the folder for this process, making it when absent; refused while a server has it. */
export async function lockData(path: string): Promise<Outcome<DataLock>> {
  makeFolder(path)
  const { dev, ino } = statSync(path)
  const isAbstract = process.platform === 'linux'
  const name = isAbstract ? `\0sluice-data-${dev}-${ino}` : join(path, 'server.lock')
  const server = await listen(name)
  if (server !== null) return accept(lockOf(server))
  const holder = await askHolder(name)
  if (holder === null && !isAbstract) {
    rmSync(name, { force: true })
    const second = await listen(name)
    if (second !== null) return accept(lockOf(second))
  }
  const who = holder === null ? 'another server' : `process ${holder}`
  return refuse('unavailable', 'data-locked', `the data folder ${path} is in use by ${who}`)
}

function listen(name: string): Promise<Server | null> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => {
      socket.on('error', () => {})
      socket.end(String(process.pid))
    })
    server.once('error', (error: NodeJS.ErrnoException) =>
      error.code === 'EADDRINUSE' ? resolve(null) : reject(error),
    )
    // Exclusive: a cluster worker would otherwise share its parent's.
    server.listen({ path: name, exclusive: true }, () => resolve(server))
    server.unref()
  })
}

/** The process id that the holder tells; null when nobody answers. */
function askHolder(name: string): Promise<string | null> {
  return new Promise((resolve) => {
    let text = ''
    const socket = connect(name)
    socket.setTimeout(answerMsMax, () => socket.destroy())
    socket.on('data', (chunk) => {
      text += String(chunk)
    })
    socket.on('error', () => {})
    socket.on('close', () => resolve(/^\d+$/.test(text) ? text : null))
  })
}

function lockOf(server: Server): DataLock {
  return { release: () => new Promise((resolve) => server.close(() => resolve())) }
}

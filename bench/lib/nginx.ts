// nginx as a contender: found, started on a free port with one worker, stopped. Thread: main of the
// bench process.
import { execFile, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const program = existsSync('/usr/sbin/nginx') ? '/usr/sbin/nginx' : 'nginx'
const startTries = 100
const startLookMs = 50

export interface Nginx {
  readonly port: number
  /** Processor time of the worker so far. */
  cpuSeconds(): number
  stop(): Promise<void>
}

/** Why it cannot run here; undefined when it can. */
export function nginxMissing(): Promise<string | undefined> {
  return new Promise((resolve) =>
    execFile(program, ['-v'], (error) => resolve(error === null ? undefined : 'no nginx')),
  )
}

/** Starts it; `http` is added to the http block besides the server's listen line. */
export async function startNginx(http: string, location: string): Promise<Nginx> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-nginx-'))
  const port = await freePort()
  const file = join(folder, 'nginx.conf')
  writeFileSync(
    file,
    `daemon off; worker_processes 1; pid ${folder}/pid; error_log /dev/null;
events { worker_connections 2048; }
http { access_log off; keepalive_requests 100000000;
  client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/f; uwsgi_temp_path ${folder}/u; scgi_temp_path ${folder}/s;
  ${http}
  server { listen 127.0.0.1:${port}; location / { ${location} } } }`,
  )
  const child = spawn(program, ['-p', folder, '-c', file], { stdio: 'ignore' })
  await untilListening(port)
  return {
    port,
    cpuSeconds: () => cpuSecondsOf(workerOf(child.pid!)),
    stop: () =>
      new Promise((resolve) => {
        child.once('exit', () => {
          rmSync(folder, { recursive: true, force: true })
          resolve()
        })
        child.kill()
      }),
  }
}

function workerOf(master: number): number {
  const children = readFileSync(`/proc/${master}/task/${master}/children`, 'utf8')
  return Number(children.trim().split(' ')[0])
}

/** Linux counts in hundredths of a second. */
function cpuSecondsOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')
  return (Number(fields[11]) + Number(fields[12])) / 100
}

export function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as AddressInfo
      probe.close(() => resolve(port))
    })
  })
}

async function untilListening(port: number): Promise<void> {
  for (let tries = 0; tries < startTries; tries++) {
    const isUp = await new Promise<boolean>((resolve) => {
      const socket = connect(port, '127.0.0.1', () => {
        socket.destroy()
        resolve(true)
      }).on('error', () => resolve(false))
    })
    if (isUp) return
    await new Promise((resolve) => setTimeout(resolve, startLookMs))
  }
  throw new Error('nginx does not listen')
}

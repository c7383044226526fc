// nginx and haproxy in front of a gRPC server, as operators put them there: HTTP/2 on both sides,
// on a free loopback port, in a folder of their own. Absent, their tests are skipped.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from './free-port.ts'
import { until } from './until.ts'

export interface Http2Proxy {
  /** host:port */
  readonly target: string
  /** Reads its configuration again, as after a change of it: streams of the old one end. */
  reload(): void
  close(): Promise<void>
}

interface Kind {
  readonly isHere: () => boolean
  readonly words: (folder: string) => readonly string[]
  readonly reload: NodeJS.Signals
  readonly config: (place: { folder: string; port: number; upstream: string }) => string
}

/** Header fields of more than a frame: they continue in another one. */
const longHeaders = ['a', 'b', 'c', 'd', 'e', 'f']
  .map((name) => `add_header x-long-${name} ${name.repeat(3_500)} always;`)
  .join('\n')

export const proxyKinds = {
  nginx: {
    isHere: () => isInstalled('nginx', ['-V']),
    words: (folder) => ['nginx', '-p', folder, '-e', 'stderr', '-c', join(folder, 'config')],
    reload: 'SIGHUP',
    config: ({ folder, port, upstream }) => `
daemon off;
pid ${folder}/pid;
worker_processes 1;
worker_shutdown_timeout 1s;
${process.getuid?.() === 0 ? 'user root;' : ''}
events { worker_connections 256; }
http {
  access_log off;
  client_body_temp_path ${folder};
  proxy_temp_path ${folder};
  fastcgi_temp_path ${folder};
  uwsgi_temp_path ${folder};
  scgi_temp_path ${folder};
  server {
    listen 127.0.0.1:${port} http2;
    client_max_body_size 0;
    client_body_timeout 24h;
    grpc_read_timeout 24h;
    grpc_send_timeout 24h;
    ${longHeaders}
    location / { grpc_pass grpc://${upstream}; }
  }
}
`,
  },
  haproxy: {
    isHere: () => isInstalled('haproxy', ['-v']),
    words: (folder) => ['haproxy', '-W', '-f', join(folder, 'config')],
    reload: 'SIGUSR2',
    config: ({ port, upstream }) => `
global
    hard-stop-after 1s
defaults
    mode http
    timeout connect 2s
    timeout client 24h
    timeout server 24h
listen grpc
    bind 127.0.0.1:${port} proto h2
    server node ${upstream} proto h2
`,
  },
} as const satisfies Record<string, Kind>

export type ProxyName = keyof typeof proxyKinds

/** True where the program is installed; prints the reason where it is not. */
export function hasProxy(name: ProxyName): boolean {
  const isHere = proxyKinds[name].isHere()
  if (!isHere) console.warn(`skipped: no ${name} (package ${name})`)
  return isHere
}

export async function openProxy(name: ProxyName, upstream: string): Promise<Http2Proxy> {
  const { config, words, reload } = proxyKinds[name]
  const folder = mkdtempSync(join(tmpdir(), `sluice-${name}-`))
  const port = await freePort()
  writeFileSync(join(folder, 'config'), config({ folder, port, upstream }))
  const [program, ...args] = words(folder)
  const child = spawn(program!, args, { stdio: ['ignore', 'ignore', 'pipe'] })
  let output = ''
  child.stderr.on('data', (chunk) => {
    output += chunk
  })
  process.once('exit', () => child.kill('SIGKILL'))
  const isUp = () => {
    if (child.exitCode !== null) throw new Error(`${name} ended: ${output}`)
    return isListening(port)
  }
  await until(isUp, `${name} to listen`)
  return {
    target: `127.0.0.1:${port}`,
    reload: () => void child.kill(reload),
    close: async () => {
      await end(child)
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** SIGTERM ends the workers, too. */
async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  child.kill('SIGTERM')
  await once(child, 'exit')
}

function isInstalled(program: string, args: readonly string[]): boolean {
  try {
    execFileSync(program, args, { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}

// nginx in front of or beside our endpoints: found, started on a free port with one worker, stopped.
import { execFile, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from './free-port.ts'
import { until } from './until.ts'

const program = existsSync('/usr/sbin/nginx') ? '/usr/sbin/nginx' : 'nginx'

export interface Nginx {
  readonly port: number
  readonly pid: number
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
  await until(() => isListening(port), 'nginx to listen')
  return {
    port,
    pid: child.pid!,
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

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy()
      resolve(true)
    }).on('error', () => resolve(false))
  })
}

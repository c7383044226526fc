// A node that answers every call with an error of a test's choice, and whose
// address has everything that providers put there: a user, a password, a path key, a query key.
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'

export class LeakyNode {
  readonly xToken = 'xT0ken-secret'
  readonly pathKey = 'SECRETPATH-9f8e7d6c5b4a'
  readonly queryKey = 'q1w2'
  readonly password = 'pa55/word'
  /** Members of the error object after its code, as JSON. */
  members = '"message":"no"'
  readonly #server: Server = createServer((request, response) => {
    let text = ''
    request.on('data', (chunk) => {
      text += chunk
    })
    request.on('end', () => response.end(this.#answer(text)))
  })

  async listen(): Promise<this> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
    return this
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  get host(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  get rpc(): string {
    const pair = `me:${encodeURIComponent(this.password)}`
    return `http://${pair}@${this.host}/${this.pathKey}?api-key=${this.queryKey}`
  }

  get ws(): string {
    return `ws://${this.host}/${this.pathKey}`
  }

  /** Everything that no customer may read, by name. */
  get secrets(): Readonly<Record<string, string>> {
    const { rpc, ws, host, xToken, pathKey, queryKey, password } = this
    const pair = `me:${password}`
    const basic = Buffer.from(pair).toString('base64')
    return { rpc, ws, host, xToken, pathKey, queryKey, password, pair, basic }
  }

  #answer(body: string): string {
    const parsed = JSON.parse(body)
    if (Array.isArray(parsed))
      return `[${parsed.map((call) => this.#answer(JSON.stringify(call))).join(',')}]`
    const { id, method } = parsed
    const result = probes[method]
    if (result !== undefined) return `{"jsonrpc":"2.0","id":${id},"result":${result}}`
    return `{"jsonrpc":"2.0","id":${id},"error":{"code":-32010,${this.members}}}`
  }
}

/** So that it stays in the rotation. */
const probes: Readonly<Record<string, string>> = {
  getHealth: '"ok"',
  getSlot: '1000',
  getMaxShredInsertSlot: '1000',
}

/** Ways in which a secret may be written into an error, as the members of its JSON. */
export const writings: Readonly<Record<string, (secret: string) => string>> = {
  plain: (secret) => `"message":${JSON.stringify(`refused by ${secret} (key)`)}`,
  'in upper case': (secret) => `"message":${JSON.stringify(secret.toUpperCase())}`,
  'in data': (secret) => `"message":"no","data":{"err":{"at":[${JSON.stringify(secret)}]}}`,
  'JSON-escaped': (secret) => `"message":"${escaped(secret)}"`,
  'JSON in JSON': (secret) => `"message":${JSON.stringify(`{"at":"${escaped(secret)}"}`)}`,
  'percent-encoded': (secret) => `"message":"at ${encodeURIComponent(secret)}"`,
  'percent-encoded twice': (secret) =>
    `"message":"at ${encodeURIComponent(encodeURIComponent(secret))}"`,
  'every byte percent-encoded': (secret) =>
    `"message":"${Buffer.from(secret).toString('hex').replace(/../g, '%$&')}"`,
  'with escaped slashes': (secret) => `"message":"${secret.replaceAll('/', '\\/')}"`,
}

function escaped(text: string): string {
  return [...text].map((char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')
}

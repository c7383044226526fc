// The least the native server can do with a POST: read the body, answer a constant.
// Thread: a process of its own.
import { listen, uws } from '../../../src/base/transport/uws.ts'
import { freePort } from '../../../test/testkit/free-port.ts'

/** Returns its port. */
export async function startConstant(answer: string): Promise<number> {
  const port = await freePort()
  const app = uws().App()
  app.post('/*', (response) => {
    response.onAborted(() => {})
    response.onData((_, isLast) => {
      if (isLast) response.end(answer)
    })
  })
  await listen(app, { host: '127.0.0.1', port, exclusive: true })
  return port
}

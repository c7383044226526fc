// gRPC by hand on node:http2, to see the frames that a library hides.
import { connect } from 'node:http2'

/** What a raw HTTP/2 client sees: response headers, and trailers if they came apart. */
export async function rawCall(
  target: string,
  headers: Record<string, string | string[]>,
  body: Buffer | null = Buffer.from('0000000000', 'hex'),
): Promise<{ headers: Record<string, unknown>; data: Buffer; trailers: Record<string, unknown> }> {
  const session = connect(`http://${target}`)
  try {
    return await new Promise((resolve, reject) => {
      const stream = session.request(
        { ':method': 'POST', 'content-type': 'application/grpc', te: 'trailers', ...headers },
        { endStream: body === null },
      )
      const seen = { headers: {}, data: [] as Buffer[], trailers: {} }
      stream.on('response', (got) => Object.assign(seen.headers, got))
      stream.on('trailers', (got) => Object.assign(seen.trailers, got))
      stream.on('data', (chunk: Buffer) => seen.data.push(chunk))
      stream.on('end', () => resolve({ ...seen, data: Buffer.concat(seen.data) }))
      stream.on('error', reject)
      if (body !== null) stream.end(body)
    })
  } finally {
    session.close()
  }
}

/** A message behind its gRPC prefix. */
export function framed(message: Uint8Array, compressed = 0): Buffer {
  const head = Buffer.alloc(5)
  head[0] = compressed
  head.writeUInt32BE(message.length, 1)
  return Buffer.concat([head, message])
}

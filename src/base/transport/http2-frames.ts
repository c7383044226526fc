// Builds HTTP/2 frames by hand, for what Node's client refuses to send.
// Headers are HPACK literals without indexing or Huffman coding, which every peer must accept.

const frameType = { data: 0, headers: 1, settings: 4 } as const
const endHeaders = 4

/** The first bytes of a client: the preface and empty settings. */
export function openingBytes(): Buffer {
  const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
  return Buffer.concat([preface, frame(frameType.settings, 0, 0, new Uint8Array())])
}

/** The headers of a call; a name may occur twice. */
export function headersFrame(
  streamId: number,
  headers: readonly (readonly [string, string])[],
): Buffer {
  const literals = headers.map(([name, value]) =>
    Buffer.concat([Buffer.from([0]), literal(name), literal(value)]),
  )
  return frame(frameType.headers, endHeaders, streamId, Buffer.concat(literals))
}

export function dataFrame(streamId: number, bytes: Uint8Array): Buffer {
  return frame(frameType.data, 0, streamId, bytes)
}

function frame(type: number, flags: number, streamId: number, payload: Uint8Array): Buffer {
  const head = Buffer.alloc(9)
  head.writeUIntBE(payload.length, 0, 3)
  head[3] = type
  head[4] = flags
  head.writeUInt32BE(streamId, 5)
  return Buffer.concat([head, payload])
}

/** HPACK string: its length in a 7-bit prefix, then the bytes. */
function literal(text: string): Buffer {
  const bytes = Buffer.from(text)
  if (bytes.length < 127) return Buffer.concat([Buffer.from([bytes.length]), bytes])
  const length = [127]
  let rest = bytes.length - 127
  for (; rest >= 128; rest >>>= 7) length.push((rest & 127) | 128)
  return Buffer.concat([Buffer.from([...length, rest]), bytes])
}

// HTTP/2 from nodes: frames beside an obvious reader, header blocks beside node:http2's.
import { ok } from 'node:assert'
import { connect } from 'node:http2'
import { duplexPair } from 'node:stream'
import { encodeHeaders, HeaderBlocks, HeaderDecoder } from '../../../src/upstream/geyser/hpack.ts'
import {
  frameFlag,
  frameMessage,
  frameOf,
  frameType,
  Http2Reader,
  preface,
  settingsFrame,
} from '../../../src/upstream/geyser/http2-reader.ts'
import { type Chance, pieces, same, type Target, text } from '../target.ts'

const stream = 1
const { data, headers, ping, settings, continuation } = frameType
const headBytes = 9
const prefixBytes = 5

export const http2Frames: Target = {
  bytesMax: 16_384,
  words: [frameOf({ type: ping, flags: 0, stream: 0 }, Buffer.alloc(8)), Uint8Array.of(0, 0, 1)],
  seeds() {
    const message = frameMessage(Buffer.from('a message of a stream'))
    const block = encodeHeaders([['x', 'y']])
    const padded = Buffer.concat([Buffer.of(3), message, Buffer.alloc(3)])
    const frames = [
      settingsFrame([[4, 65_535]]),
      frameOf({ type: data, flags: 0, stream }, Buffer.concat([message, message])),
      frameOf({ type: data, flags: frameFlag.padded, stream }, padded),
      frameOf({ type: data, flags: frameFlag.endStream, stream: 3 }, Buffer.from('other')),
      frameOf({ type: headers, flags: frameFlag.endHeaders, stream }, block),
      frameOf({ type: data, flags: 0, stream }, message.subarray(0, 7)),
    ]
    return frames.map((_, index) => Buffer.concat(frames.slice(0, index + 1)))
  },
  change: changeFrames,
  run(input) {
    const whole = readFrames([input])
    same(readFrames(pieces(input, 12)), whole, 'in pieces')
    same(whole, readObviously(input), 'as the obvious reader')
  },
}

interface Read {
  frames: unknown[]
  other: string
  messages: string[]
  ends: unknown[]
  broken: string
}

function readFrames(parts: readonly Buffer[]): Read {
  const found: Read = { frames: [], other: '', messages: [], ends: [], broken: '' }
  const reader = new Http2Reader({
    frame: (head, payload) => found.frames.push([head, payload.toString('hex')]),
    data: (_, bytes) => {
      found.other += bytes.toString('hex')
    },
    arrived: () => {},
    messages(bytes, offsets) {
      for (let at = 0; at < offsets.length; at += 2)
        found.messages.push(bytes.toString('hex', offsets[at], offsets[at + 1]))
    },
    dataEnd: (...end) => found.ends.push(end),
    malformed(what) {
      found.broken ||= what
      // As the connection does.
      reader.stop()
    },
  })
  reader.inPlace = stream
  for (const part of parts)
    for (let at = 0; at < part.length; ) {
      const count = part.copy(reader.room(), 0, at)
      ok(count > 0, 'there is room')
      at += count
      reader.read(count)
    }
  // A frame of which the messages are malformed ends in this read, or is not read to its end.
  if (found.broken !== '') found.ends = []
  return found
}

function readObviously(input: Buffer): Read {
  const found: Read = { frames: [], other: '', messages: [], ends: [], broken: '' }
  let body: Buffer = Buffer.alloc(0)
  for (let at = 0; at + headBytes <= input.length && found.broken === ''; ) {
    const length = input.readUIntBE(at, 3)
    const [type, flags] = [input[at + 3]!, input[at + 4]!]
    const id = input.readUInt32BE(at + 5) & 0x7fff_ffff
    if ((at === 0 && type !== settings) || (type !== data && length > 65_536)) {
      found.broken = 'frames'
      break
    }
    const payload = input.subarray(at + headBytes, at + headBytes + length)
    at += headBytes + length
    if (type !== data) {
      if (payload.length === length)
        found.frames.push([{ type, flags, stream: id }, payload.toString('hex')])
      continue
    }
    const isPadded = (flags & frameFlag.padded) !== 0
    // The length of the padding is the next byte, whatever the frame says.
    if (isPadded && payload.length === 0 && at >= input.length) break
    const padding = isPadded ? (payload[0] ?? 0) : 0
    if ((isPadded ? 1 : 0) + padding > length) {
      found.broken = 'frames'
      break
    }
    const part = payload.subarray(isPadded ? 1 : 0, length - padding)
    if (id === stream) body = Buffer.concat([body, part])
    else found.other += part.toString('hex')
    body = splitMessages(body, found)
    if (payload.length === length)
      found.ends.push([id, length, (flags & frameFlag.endStream) !== 0])
  }
  if (found.broken !== '') found.ends = []
  return found
}

/** What is left after the whole messages. */
function splitMessages(body: Buffer, found: Read): Buffer {
  let rest = body
  while (rest.length >= prefixBytes) {
    const length = rest.readUInt32BE(1)
    if (rest[0] !== 0 || length > 64 * 1024 * 1024) {
      found.broken = 'messages'
      return rest
    }
    if (rest.length < prefixBytes + length) return rest
    found.messages.push(rest.toString('hex', prefixBytes, prefixBytes + length))
    rest = rest.subarray(prefixBytes + length)
  }
  return rest
}

/** Frames go, come twice, or have another payload, with their lengths. */
function changeFrames(input: Buffer, chance: Chance): Buffer {
  const frames: Buffer[] = []
  for (let at = 0; at + headBytes <= input.length; ) {
    const end = at + headBytes + input.readUIntBE(at, 3)
    frames.push(Buffer.from(input.subarray(at, end)))
    at = end
  }
  const at = chance.below(frames.length)
  const frame = frames[at]
  if (frame === undefined) return input
  switch (chance.below(5)) {
    case 0:
      frames.splice(at, 1)
      break
    case 1:
      frames.splice(at, 0, frame)
      break
    case 2:
      frame[4] = chance.below(64)
      break
    case 3:
      frame[3] = chance.below(11)
      break
    default: {
      const length = chance.below(frame.length + 20)
      const payload = Buffer.alloc(length, frame.subarray(headBytes - 1))
      frames[at] = frameOf(
        { type: frame[3]!, flags: frame[4]!, stream: chance.one([0, 1, 1, 3]) },
        payload,
      )
    }
  }
  return Buffer.concat(frames)
}

const coded = Buffer.from('828684418cf1e3c2e5f23a6ba0ab90f4ff', 'hex')

export const http2Headers: Target = {
  words: [
    Uint8Array.of(0x40),
    Uint8Array.of(0x3f, 0xe1, 0x1f),
    Uint8Array.of(0xff),
    Uint8Array.of(0x8c),
  ],
  seeds: () => [
    encodeHeaders([
      [':status', '200'],
      ['content-type', 'application/grpc'],
      ['grpc-status', '0'],
    ]),
    coded,
    Buffer.concat([Buffer.of(0x40, 1, 0x61, 1, 0x62, 0xbe, 0xbe), text('')]),
    Buffer.from('4882640258', 'hex'),
    Buffer.from('0f0d023132', 'hex'),
  ],
  run(input) {
    const decoder = new HeaderDecoder()
    for (let block = 0; block < 2; block++) {
      const fields = decoder.decode(input)
      if (fields === null) break
      let bytes = 0
      for (const [name, value] of fields) bytes += name.length + value.length
      ok(bytes <= 64 * 1024, 'a list of headers is bounded')
    }
    const whole = inFrames([input])
    same(inFrames(pieces(input, 3)), whole, 'in frames')
  },
  async compare(input) {
    const block = Buffer.concat([Buffer.of(0x88), input])
    const theirs = await nativeFields(block)
    // Its bound leaves out the fields that it drops.
    const ours = new HeaderDecoder(Number.POSITIVE_INFINITY).decode(block)
    if (theirs === 'undecodable') ok(ours === null, 'node:http2 does not decode it')
    else if (theirs !== null) {
      ok(ours !== null, 'node:http2 decodes it')
      // Names that come more than once are joined there.
      for (const [name, value] of Object.entries(theirs))
        if (typeof value === 'string' && !value.includes(','))
          same(ours.get(name)?.trim(), value.trim(), name)
    }
  },
}

function inFrames(parts: readonly Buffer[]): unknown {
  const blocks = new HeaderBlocks()
  let found: unknown = null
  for (const [index, part] of parts.entries()) {
    const flags = index === parts.length - 1 ? frameFlag.endHeaders : 0
    found = blocks.take({ type: index === 0 ? headers : continuation, flags, stream }, part)
  }
  return found === null || typeof found === 'string'
    ? found
    : [...(found as { fields: Map<string, string> }).fields]
}

const compressionError = 9

/** The fields of a response; null where it is none for another reason than its coding. */
function nativeFields(block: Buffer): Promise<Record<string, unknown> | 'undecodable' | null> {
  return new Promise((resolve) => {
    const [near, far] = duplexPair()
    const session = connect('http://node', { createConnection: () => near })
    const done = (result: Record<string, unknown> | 'undecodable' | null) => {
      resolve(result)
      session.destroy()
      far.destroy()
    }
    // A header list that is refused resets the stream, a block that is not decoded the connection.
    let sent = Buffer.alloc(0)
    far.on('data', (bytes: Buffer) => {
      sent = Buffer.concat([sent, bytes])
      const refused = refusalIn(sent.subarray(preface.length))
      if (refused !== null) done(refused === compressionError ? 'undecodable' : null)
    })
    session.on('error', () => done(null))
    const request = session.request({ ':path': '/' })
    request.on('response', (fields) => done({ ...fields }))
    request.on('error', () => done(null))
    request.resume()
    far.write(settingsFrame([]))
    const flags = frameFlag.endHeaders | frameFlag.endStream
    far.write(frameOf({ type: headers, flags, stream }, block))
  })
}

/** The code with which a client ended the stream or the connection; null while it did not. */
function refusalIn(frames: Buffer): number | null {
  for (let at = 0; at + headBytes <= frames.length; ) {
    const end = at + headBytes + frames.readUIntBE(at, 3)
    const type = frames[at + 3]
    if (end > frames.length) return null
    if (type === frameType.resetStream) return frames.readUInt32BE(at + headBytes)
    if (type === frameType.goAway) return frames.readUInt32BE(at + headBytes + 4)
    at = end
  }
  return null
}

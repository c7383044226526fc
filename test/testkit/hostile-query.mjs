// Stands in for a query process that was taken over: sends frames that are not maps, then ends.
import { writeSync } from 'node:fs'

for (const body of [[0xc0], [0x07], [0x90], [0x81, 0xa2, 0x69, 0x64, 0xc0]]) {
  const frame = Buffer.alloc(4 + body.length)
  frame.writeUInt32LE(body.length)
  frame.set(body, 4)
  writeSync(3, frame)
}

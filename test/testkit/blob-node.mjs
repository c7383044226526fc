// A node in a process of its own whose getProgramAccounts is as long as it was told: argv[2] bytes.
// Sends its port. argv[3] is after how many bytes it dies, when it shall.
import { createServer } from 'node:http'

const bytes = Number(process.argv[2])
const diesAt = Number(process.argv[3] ?? Number.POSITIVE_INFINITY)
const piece = Buffer.from(`{"pubkey":"${'k'.repeat(44)}","data":"${'d'.repeat(65_400)}"},`)

createServer((request, response) => {
  const chunks = []
  request.on('data', (chunk) => chunks.push(chunk))
  request.on('end', () => answer(JSON.parse(Buffer.concat(chunks).toString()), response))
}).listen(0, '127.0.0.1', function () {
  process.send({ port: this.address().port })
})

function answer(asked, response) {
  if (Array.isArray(asked)) {
    response.end(JSON.stringify(asked.map(({ id, method }) => probe(id, method))))
    return
  }
  if (asked.method !== 'getProgramAccounts') {
    response.end(JSON.stringify(probe(asked.id, asked.method)))
    return
  }
  response.write('{"jsonrpc":"2.0","result":[')
  let sent = 0
  const more = () => {
    while (sent < bytes) {
      if (sent >= diesAt) process.exit(1)
      sent += piece.length
      if (!response.write(piece)) {
        response.once('drain', more)
        return
      }
    }
    response.end(`null],"id":${asked.id}}\n`)
  }
  more()
}

function probe(id, method) {
  return { jsonrpc: '2.0', id, result: method === 'getHealth' ? 'ok' : 1000 }
}
process.once('disconnect', () => process.exit(0))

// Takes the pictures of /live, /live/solana and /play from a server that it starts on free ports:
//   node scripts/screenshots.mjs [chromium]
// Writes docs/pictures/live.webp, solana.webp and play.webp. Run it after `npm run build` when a page looks different.
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const folder = join(root, 'docs', 'pictures')
const products = ['rpc', 'websocket', 'grpc', 'metrics', 'tpu', 'shredstream', 'indexer']
const deadlineMs = 180_000
const viewport = { width: 1360, height: 850 }
/** Of the WebP: a picture stays below 120 kB. */
const quality = 0.82
/** Blocks that /live shows before its picture is taken, and rows of /play. */
const blocksLeast = 120
const sql = `SELECT slot, tx_count
FROM blocks
ORDER BY slot DESC
LIMIT 60`

const data = mkdtempSync(join(tmpdir(), 'sluice-pictures-'))
const ports = products.map((name) => `--${name}.port=0`)
const args = [join(root, 'dist', 'src', 'main.js'), 'serve', `--data=${data}`, ...ports]
const server = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
let printed = ''
server.stdout.on('data', (chunk) => {
  printed += chunk
})
try {
  await until(() => existsSync(join(data, 'doors.json')), 'the endpoints')
  const doors = JSON.parse(readFileSync(join(data, 'doors.json'), 'utf8'))
  const origin = (name) => `http://${doors[name].host}:${doors[name].port}`
  const browser = await chromium.launch({
    executablePath: process.argv[2] ?? '/usr/bin/chromium',
    args: process.getuid() === 0 ? ['--no-sandbox'] : [],
  })
  mkdirSync(folder, { recursive: true })
  await takeLive(browser, origin('metrics'))
  await takeSolana(browser, origin('metrics'))
  await takePlay(browser, origin('indexer'))
  await browser.close()
} finally {
  server.kill('SIGTERM')
  await new Promise((resolve) => server.once('exit', resolve))
  rmSync(data, { recursive: true, force: true })
}

async function takeLive(browser, origin) {
  const rows = async () => {
    const response = await fetch(`${origin}/v1/blocks?last=${blocksLeast}`)
    return (await response.json()).blocks.length
  }
  await until(async () => (await rows()) >= blocksLeast, `${blocksLeast} blocks`)
  const page = await browser.newPage({ viewport })
  await page.goto(`${origin}/live`)
  await page.locator('body[data-state=live]').waitFor({ timeout: deadlineMs })
  // Everything on the page is drawn at least once a second.
  await sleep(3_000)
  await save(page, 'live')
}

async function takeSolana(browser, origin) {
  const page = await browser.newPage({ viewport })
  await page.goto(`${origin}/live/solana`)
  await page.locator('body[data-state=live]').waitFor({ timeout: deadlineMs })
  // A minute of documents makes whole sparklines.
  await sleep(60_000)
  await save(page, 'solana')
}

async function takePlay(browser, origin) {
  const secret = (name) => new RegExp(`^${name}=(.+)$`, 'm').exec(printed)?.[1] ?? ''
  const page = await browser.newPage({ viewport })
  await page.goto(`${origin}/play`)
  await page.locator('#user').fill(secret('INDEXER_USER'))
  await page.locator('#password').fill(secret('INDEXER_PASSWORD'))
  await page.locator('#token').fill(secret('TOKEN'))
  await page.locator('#sql').fill(sql)
  await page.locator('#run').click()
  await page.locator('#table-part tbody tr').nth(20).waitFor({ timeout: deadlineMs })
  // A picture for everyone must not show whose it is.
  await page.locator('#user').fill('')
  await save(page, 'play')
}

/** Chromium takes PNG and JPEG only, but its canvas writes WebP. */
async function save(page, name) {
  const shot = await page.screenshot()
  await page.goto('about:blank')
  const url = await page.evaluate(
    async ([text, part]) => {
      const image = new Image()
      image.src = `data:image/png;base64,${text}`
      await image.decode()
      const canvas = document.createElement('canvas')
      canvas.width = image.width
      canvas.height = image.height
      canvas.getContext('2d').drawImage(image, 0, 0)
      return canvas.toDataURL('image/webp', part)
    },
    [shot.toString('base64'), quality],
  )
  writeFileSync(join(folder, `${name}.webp`), Buffer.from(url.split(',')[1], 'base64'))
  await page.close()
}

async function until(holds, what) {
  const endMs = performance.now() + deadlineMs
  while (!(await holds())) {
    if (performance.now() > endMs) throw new Error(`waited in vain for ${what}`)
    await sleep(100)
  }
}

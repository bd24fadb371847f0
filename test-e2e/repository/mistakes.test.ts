import { execFile } from 'node:child_process'
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { database } from '@onceward/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { BROKER_NAMES, BROKERS } from '../brokers/index.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'onceward-mistakes-'))
  await symlink(join(import.meta.dirname, '../../node_modules'), join(folder, 'node_modules'))
})
afterAll(() => rm(folder, { recursive: true }))

interface Mistake {
  readonly imports: string
  /** The line that is wrong. */
  readonly line: string
  readonly says: string
  /** What the cause says, which loggers have too. */
  readonly cause?: string
}

const GUARD = "import { createBatchGuard, createGuard } from '@onceward/core'"
const MEMORY = "import { memoryInbox } from '@onceward/core/memory'"
const OPTIONS = "{ consumer: 'billing', inbox: memoryInbox() }"
const HANDLER = 'async () => undefined'

/** A consumer whose options have a typing error. */
const consuming = (name: string, from: string): Mistake => ({
  imports: `import { ${name} } from '@onceward/${from}'`,
  line: `await ${name}({}, createGuard(${OPTIONS}, ${HANDLER}), { concurency: 3 })`,
  says: `${name} does not know "concurency"`,
})

const consumers = BROKER_NAMES.map(async (broker) => {
  const { name } = await BROKERS[broker].consume()
  return [name, consuming(name, broker)] as const
})

const creating = (name: string): Mistake => ({
  imports: '',
  line: `${name}({ consumer: 'billing', inbox: memoryInbox(), evenKey: () => 'a' }, ${HANDLER})`,
  says: `${name} does not know "evenKey", did you mean "eventKey"?`,
})

const TABLES: Mistake = {
  imports: `import { SQSClient } from '@aws-sdk/client-sqs'
import { pgInbox } from '@onceward/postgres/pg'
import { consumeSqs } from '@onceward/sqs'
const inbox = pgInbox({ connectionString: process.env.DATABASE_URL })
const billing = createGuard({ consumer: 'billing', inbox }, ${HANDLER})
const client = new SQSClient({ region: 'us-east-1' })
const queueUrl = 'http://127.0.0.1:1/orders'`,
  line: 'await consumeSqs(client, billing, { queueUrl })',
  says: 'The tables of onceward are missing in schema "onceward" of the database test_',
  cause: '[cause]: error: relation "onceward.settings" does not exist',
}

const MISTAKES: readonly (readonly [name: string, Mistake])[] = [
  ['createGuard', creating('createGuard')],
  ['createBatchGuard', creating('createBatchGuard')],
  ...(await Promise.all(consumers)),
  ['tables that are missing', TABLES],
]

// Red before: a line of onceward was shown first, and then its frames.
test.each(MISTAKES)(
  'a process that ends by a mistake shows its line and what is wrong: %s',
  async (name, mistake) => {
    const { cause = '', imports, line, says } = mistake
    const file = join(folder, `${name.replaceAll(' ', '-')}.ts`)
    await writeFile(file, [GUARD, MEMORY, imports, line, ''].join('\n'))
    const error = await errorOf(file)
    const [shown, caret, empty, sentence, frame] = error.split('\n').slice(1)
    expect(shown).toBe(line)
    expect(caret?.trim()).toBe('^')
    expect(empty).toBe('')
    expect(sentence).toContain(`ConfigurationError: ${says}`)
    expect(frame).toContain(pathToFileURL(file).href)
    expect(error).toContain(cause)
  },
)

/** What a process of this file writes to standard error. It ends with an error. */
async function errorOf(file: string): Promise<string> {
  const { url } = await database()
  const args = ['--conditions=@onceward/source', '--disable-warning=ExperimentalWarning', file]
  const env = { ...process.env, DATABASE_URL: url }
  return new Promise((resolve, reject) => {
    execFile(process.execPath, args, { env }, (error, _stdout, stderr) => {
      if (error === null) reject(new Error(`${file} ended without an error`))
      else resolve(stderr)
    })
  })
}

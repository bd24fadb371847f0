import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** What the examples use without declaring it. */
const GLOBALS = `declare const app: import('express').Express
declare const billing: import('@onceward/core').Guard
declare const channel: import('amqplib').ConfirmChannel
declare const consumer: import('kafkajs').Consumer
declare const consumption: import('@onceward/core/adapter').Consumption
declare const db: import('kysely').Kysely<{ charges: { order_id: string; cents: number } }>
declare const deadLetterUrl: string
declare const inbox: import('@onceward/core').Inbox<import('pg').PoolClient>
declare const kafka: import('kafkajs').Kafka
declare const OrderPlaced: import('zod').ZodType<{ orderId: string; cents: number }>
declare const pool: import('pg').Pool
declare const prisma: import('../../../docs/samples/prisma/generated/client.ts').PrismaClient
declare const queueUrl: string
declare const redis: import('ioredis').Redis
declare const secret: string
declare const sendMail: (mail: unknown, key: string, signal: AbortSignal) => Promise<void>
declare const sqs: import('@aws-sdk/client-sqs').SQSClient
`

// Writes the `@example` of every comment in the packages into a file of its own, with a project that compiles them, and
// prints the path of the project.
const root = fileURLToPath(new URL('..', import.meta.url))
const folder = join(root, 'node_modules/.cache/onceward-examples')
const EXAMPLE = /@example\n \* ```ts\n([\s\S]*?)\n \* ```/g

const sources = readdirSync(join(root, 'packages'), { recursive: true, encoding: 'utf8' }).filter(
  (path) => /^[\w-]+\/src\/.*\.ts$/.test(path) && !path.endsWith('.test.ts'),
)

const examples = sources.flatMap((path) =>
  [...readFileSync(join(root, 'packages', path), 'utf8').matchAll(EXAMPLE)].map(
    ([, text = ''], index) => ({
      file: `${path.replaceAll('/', '.').replace(/\.ts$/, '')}.${index}.ts`,
      code: `${text.replaceAll(/^ \* ?/gm, '')}\nexport {}\n`,
    }),
  ),
)
if (examples.length === 0) throw new Error('No comment in the packages has an @example.')

rmSync(folder, { recursive: true, force: true })
mkdirSync(folder, { recursive: true })
for (const { file, code } of examples) writeFileSync(join(folder, file), code)
const project = {
  extends: join(root, 'tsconfig.test.json'),
  // An example shows values that it does not use, and needs no declaration file.
  compilerOptions: { noUnusedLocals: false, isolatedDeclarations: false, declaration: false },
  include: ['.'],
  exclude: [],
}
writeFileSync(join(folder, 'globals.d.ts'), GLOBALS)
writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(project))
console.log(folder)

import { enableCompileCache, flushCompileCache } from 'node:module'
import type { WorkerSettings } from './kills.ts'

/* The process that is killed. */
enableCompileCache()
const { name, connection, ...surroundings }: WorkerSettings = JSON.parse(process.argv[2] ?? '{}')
process.on('disconnect', () => process.exit())
const [{ SQSClient }, { RIVALS }] = await Promise.all([
  import('@aws-sdk/client-sqs'),
  import('./contestants/index.ts'),
])
flushCompileCache()
const rival = RIVALS.find((each) => each.name === name)
await rival?.consume({ ...surroundings, sqs: new SQSClient(connection) })

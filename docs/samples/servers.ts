import { postgres, sqs } from '@onceward/testing'

const database = await postgres({ settings: { max_connections: '50' } })
const queue = await sqs()
console.log(database.connection.url, queue.connection.endpoint)

await database.kill('SIGKILL') // resolves when the process and all its children have ended
await database.restart() // same port, same data; resolves when the protocol answers

for (const server of [queue, database]) await server.stop() // or `await using`, from Node 24 on

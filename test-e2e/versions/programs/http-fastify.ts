import { fastifyRoute, rawBodies } from '@onceward/http/fastify'
import { fastify } from 'fastify'
import { charge, proveRoute } from './answers.ts'

const app = fastify()
await app.register(rawBodies)
app.post('/charges', fastifyRoute(charge))
await proveRoute(`${await app.listen({ port: 0, host: '127.0.0.1' })}/charges`)

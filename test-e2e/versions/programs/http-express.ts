import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { expressRoute } from '@onceward/http/express'
import express from 'express'
import { charge, proveRoute } from './answers.ts'

const server = express().post('/charges', expressRoute(charge)).listen(0, '127.0.0.1')
await once(server, 'listening')
await proveRoute(`http://127.0.0.1:${(server.address() as AddressInfo).port}/charges`)

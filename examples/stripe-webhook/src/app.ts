import type { HttpGuard } from '@onceward/http'
import { expressRoute } from '@onceward/http/express'
import express, { type Express } from 'express'

/** The route reads the raw bytes, which are signed. Put it before `express.json()`. */
export function createApp(stripe: HttpGuard): Express {
  const app = express()
  app.post('/webhooks/stripe', expressRoute(stripe))
  return app
}

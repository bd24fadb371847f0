import { NestFactory } from '@nestjs/core'
import { AppModule } from './nestjs-app.ts'

const app = await NestFactory.createApplicationContext(AppModule)
app.enableShutdownHooks()

"""The checkpoints that people download most, and their published sizes: one row each."""

from dataclasses import dataclass

from _sizes import (
    BLIP_TEXT,
    CLIP_TEXT,
    CLIP_TEXT_LARGE,
    LARGE_LAYERS,
    LAYERS,
    SIGLIP_TEXT,
    Sizes,
    albert,
    bart,
    bert,
    clip,
    codegen,
    convnext,
    deberta_v3,
    dinov2,
    distilbert,
    esm2,
    flan_t5,
    gpt2,
    gpt_neo,
    llama,
    marian,
    opt,
    phi,
    pythia,
    qwen2,
    qwen3,
    resnet,
    roberta,
    segformer,
    speech,
    speech_large,
    t5,
    vit,
    whisper,
    yolos,
)


@dataclass(frozen=True)
class Checkpoint:
    """The model's class in transformers, and what its config says; the rest is the config class's default."""

    model: str
    sizes: Sizes


CHECKPOINTS: dict[str, Checkpoint] = {
    # BERT
    "google-bert/bert-base-uncased": Checkpoint("BertForMaskedLM", bert(30522)),
    "google-bert/bert-base-cased": Checkpoint("BertForMaskedLM", bert(28996)),
    "google-bert/bert-large-uncased": Checkpoint("BertForMaskedLM", bert(30522, 1024, 24, 16, 4096)),
    "google-bert/bert-large-cased": Checkpoint("BertForMaskedLM", bert(28996, 1024, 24, 16, 4096)),
    "google-bert/bert-base-multilingual-cased": Checkpoint("BertForMaskedLM", bert(119547)),
    "google-bert/bert-base-multilingual-uncased": Checkpoint("BertForMaskedLM", bert(105879)),
    "google-bert/bert-base-chinese": Checkpoint("BertForMaskedLM", bert(21128)),
    "google-bert/bert-base-german-cased": Checkpoint("BertForMaskedLM", bert(30000)),
    "google-bert/bert-large-uncased-whole-word-masking-finetuned-squad": Checkpoint(
        "BertForQuestionAnswering", bert(30522, 1024, 24, 16, 4096)
    ),
    "phiyodr/bert-large-finetuned-squad2": Checkpoint("BertForQuestionAnswering", bert(30522, 1024, 24, 16, 4096)),
    "deepset/bert-large-uncased-whole-word-masking-squad2": Checkpoint(
        "BertForQuestionAnswering", bert(30522, 1024, 24, 16, 4096)
    ),
    "dslim/bert-base-NER": Checkpoint("BertForTokenClassification", bert(28996, num_labels=9)),
    "dslim/bert-large-NER": Checkpoint("BertForTokenClassification", bert(28996, 1024, 24, 16, 4096, num_labels=9)),
    "nlptown/bert-base-multilingual-uncased-sentiment": Checkpoint(
        "BertForSequenceClassification", bert(105879, num_labels=5)
    ),
    "emilyalsentzer/Bio_ClinicalBERT": Checkpoint("BertForMaskedLM", bert(28996)),
    "microsoft/BiomedNLP-BiomedBERT-base-uncased-abstract-fulltext": Checkpoint("BertForMaskedLM", bert(30522)),
    "neuralmind/bert-base-portuguese-cased": Checkpoint("BertForMaskedLM", bert(29794)),
    "tohoku-nlp/bert-base-japanese": Checkpoint("BertForMaskedLM", bert(32000)),
    "hfl/chinese-macbert-base": Checkpoint("BertForMaskedLM", bert(21128)),
    "hfl/chinese-roberta-wwm-ext": Checkpoint("BertForMaskedLM", bert(21128)),
    "prajjwal1/bert-tiny": Checkpoint("BertModel", bert(30522, 128, 2, 2, 512)),
    "prajjwal1/bert-mini": Checkpoint("BertModel", bert(30522, 256, 4, 4, 1024)),
    "prajjwal1/bert-small": Checkpoint("BertModel", bert(30522, 512, 4, 8, 2048)),
    "prajjwal1/bert-medium": Checkpoint("BertModel", bert(30522, 512, 8, 8, 2048)),
    "sentence-transformers/all-MiniLM-L6-v2": Checkpoint("BertModel", bert(30522, 384, 6, 12, 1536)),
    "sentence-transformers/all-MiniLM-L12-v2": Checkpoint("BertModel", bert(30522, 384, 12, 12, 1536)),
    "sentence-transformers/paraphrase-MiniLM-L6-v2": Checkpoint("BertModel", bert(30522, 384, 6, 12, 1536)),
    "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2": Checkpoint(
        "BertModel", bert(250037, 384, 12, 12, 1536)
    ),
    "sentence-transformers/LaBSE": Checkpoint("BertModel", bert(501153)),
    "cross-encoder/ms-marco-MiniLM-L6-v2": Checkpoint(
        "BertForSequenceClassification", bert(30522, 384, 6, 12, 1536, num_labels=1)
    ),
    "cross-encoder/ms-marco-MiniLM-L12-v2": Checkpoint(
        "BertForSequenceClassification", bert(30522, 384, 12, 12, 1536, num_labels=1)
    ),
    "BAAI/bge-small-en-v1.5": Checkpoint("BertModel", bert(30522, 384, 12, 12, 1536)),
    "BAAI/bge-base-en-v1.5": Checkpoint("BertModel", bert(30522)),
    "BAAI/bge-large-en-v1.5": Checkpoint("BertModel", bert(30522, 1024, 24, 16, 4096)),
    "intfloat/e5-small-v2": Checkpoint("BertModel", bert(30522, 384, 12, 12, 1536)),
    "intfloat/e5-base-v2": Checkpoint("BertModel", bert(30522)),
    "intfloat/e5-large-v2": Checkpoint("BertModel", bert(30522, 1024, 24, 16, 4096)),
    "intfloat/multilingual-e5-small": Checkpoint("BertModel", bert(250037, 384, 12, 12, 1536)),
    "thenlper/gte-small": Checkpoint("BertModel", bert(30522, 384, 12, 12, 1536)),
    "thenlper/gte-base": Checkpoint("BertModel", bert(30522)),
    "thenlper/gte-large": Checkpoint("BertModel", bert(30522, 1024, 24, 16, 4096)),
    "mixedbread-ai/mxbai-embed-large-v1": Checkpoint("BertModel", bert(30522, 1024, 24, 16, 4096)),
    "Snowflake/snowflake-arctic-embed-xs": Checkpoint("BertModel", bert(30522, 384, 6, 12, 1536)),
    # DistilBERT: half of BERT base's layers
    "distilbert/distilbert-base-uncased": Checkpoint("DistilBertForMaskedLM", distilbert(30522)),
    "distilbert/distilbert-base-cased": Checkpoint("DistilBertForMaskedLM", distilbert(28996)),
    "distilbert/distilbert-base-multilingual-cased": Checkpoint("DistilBertForMaskedLM", distilbert(119547)),
    "distilbert/distilbert-base-uncased-finetuned-sst-2-english": Checkpoint(
        "DistilBertForSequenceClassification", distilbert(30522, num_labels=2)
    ),
    "distilbert/distilbert-base-cased-distilled-squad": Checkpoint("DistilBertForQuestionAnswering", distilbert(28996)),
    # RoBERTa
    "FacebookAI/roberta-base": Checkpoint("RobertaForMaskedLM", roberta(50265)),
    "FacebookAI/roberta-large": Checkpoint("RobertaForMaskedLM", roberta(50265, 1024, 24, 16, 4096)),
    "FacebookAI/roberta-large-mnli": Checkpoint(
        "RobertaForSequenceClassification", roberta(50265, 1024, 24, 16, 4096, num_labels=3)
    ),
    "distilbert/distilroberta-base": Checkpoint("RobertaForMaskedLM", roberta(50265, 768, 6, 12, 3072)),
    "deepset/roberta-base-squad2": Checkpoint("RobertaForQuestionAnswering", roberta(50265)),
    "deepset/roberta-large-squad2": Checkpoint("RobertaForQuestionAnswering", roberta(50265, 1024, 24, 16, 4096)),
    "deepset/tinyroberta-squad2": Checkpoint("RobertaForQuestionAnswering", roberta(50265, 768, 6, 12, 3072)),
    "cardiffnlp/twitter-roberta-base-sentiment-latest": Checkpoint(
        "RobertaForSequenceClassification", roberta(50265, num_labels=3)
    ),
    "SamLowe/roberta-base-go_emotions": Checkpoint("RobertaForSequenceClassification", roberta(50265, num_labels=28)),
    "openai-community/roberta-base-openai-detector": Checkpoint(
        "RobertaForSequenceClassification", roberta(50265, num_labels=2)
    ),
    "sentence-transformers/all-distilroberta-v1": Checkpoint("RobertaModel", roberta(50265, 768, 6, 12, 3072)),
    # XLM-RoBERTa: a hundred languages
    "FacebookAI/xlm-roberta-base": Checkpoint("XLMRobertaForMaskedLM", roberta(250002)),
    "FacebookAI/xlm-roberta-large": Checkpoint("XLMRobertaForMaskedLM", roberta(250002, 1024, 24, 16, 4096)),
    "intfloat/multilingual-e5-base": Checkpoint("XLMRobertaModel", roberta(250002)),
    "intfloat/multilingual-e5-large": Checkpoint("XLMRobertaModel", roberta(250002, 1024, 24, 16, 4096)),
    "BAAI/bge-m3": Checkpoint("XLMRobertaModel", roberta(250002, 1024, 24, 16, 4096, max_position_embeddings=8194)),
    "BAAI/bge-reranker-base": Checkpoint("XLMRobertaForSequenceClassification", roberta(250002, num_labels=1)),
    "BAAI/bge-reranker-v2-m3": Checkpoint(
        "XLMRobertaForSequenceClassification",
        roberta(250002, 1024, 24, 16, 4096, max_position_embeddings=8194, num_labels=1),
    ),
    "papluca/xlm-roberta-base-language-detection": Checkpoint(
        "XLMRobertaForSequenceClassification", roberta(250002, num_labels=20)
    ),
    "sentence-transformers/paraphrase-multilingual-mpnet-base-v2": Checkpoint("XLMRobertaModel", roberta(250002)),
    # MPNet, ELECTRA, ALBERT, DeBERTa, ESM
    "sentence-transformers/all-mpnet-base-v2": Checkpoint(
        "MPNetModel", bert(30527, max_position_embeddings=514, layer_norm_eps=1e-5)
    ),
    "google/electra-small-discriminator": Checkpoint(
        "ElectraForPreTraining", bert(30522, 256, 12, 4, 1024, embedding_size=128)
    ),
    "google/electra-base-discriminator": Checkpoint("ElectraForPreTraining", bert(30522, embedding_size=768)),
    "albert/albert-base-v2": Checkpoint("AlbertForMaskedLM", albert()),
    "albert/albert-large-v2": Checkpoint("AlbertForMaskedLM", albert(1024, 24, 16, 4096)),
    "albert/albert-xlarge-v2": Checkpoint("AlbertForMaskedLM", albert(2048, 24, 16, 8192)),
    "albert/albert-xxlarge-v2": Checkpoint("AlbertForMaskedLM", albert(4096, 12, 64, 16384)),
    "textattack/albert-base-v2-imdb": Checkpoint("AlbertForSequenceClassification", albert(num_labels=2)),
    "twmkn9/albert-base-v2-squad2": Checkpoint("AlbertForQuestionAnswering", albert()),
    "microsoft/deberta-v3-xsmall": Checkpoint("DebertaV2ForMaskedLM", deberta_v3(384, 12, 6, 1536)),
    "microsoft/deberta-v3-small": Checkpoint("DebertaV2ForMaskedLM", deberta_v3(768, 6, 12, 3072)),
    "microsoft/deberta-v3-base": Checkpoint("DebertaV2ForMaskedLM", deberta_v3()),
    "microsoft/deberta-v3-large": Checkpoint("DebertaV2ForMaskedLM", deberta_v3(1024, 24, 16, 4096)),
    "MoritzLaurer/DeBERTa-v3-base-mnli-fever-anli": Checkpoint(
        "DebertaV2ForSequenceClassification", deberta_v3(num_labels=3)
    ),
    "cross-encoder/nli-deberta-v3-base": Checkpoint("DebertaV2ForSequenceClassification", deberta_v3(num_labels=3)),
    "facebook/esm2_t6_8M_UR50D": Checkpoint("EsmForMaskedLM", esm2(320, 6, 20, 1280)),
    "facebook/esm2_t12_35M_UR50D": Checkpoint("EsmForMaskedLM", esm2(480, 12, 20, 1920)),
    # Decoders
    "openai-community/gpt2": Checkpoint("GPT2LMHeadModel", gpt2(768, 12, 12)),
    "openai-community/gpt2-medium": Checkpoint("GPT2LMHeadModel", gpt2(1024, 24, 16)),
    "openai-community/gpt2-large": Checkpoint("GPT2LMHeadModel", gpt2(1280, 36, 20)),
    "openai-community/gpt2-xl": Checkpoint("GPT2LMHeadModel", gpt2(1600, 48, 25)),
    "distilbert/distilgpt2": Checkpoint("GPT2LMHeadModel", gpt2(768, 6, 12)),
    "microsoft/DialoGPT-medium": Checkpoint("GPT2LMHeadModel", gpt2(1024, 24, 16)),
    "Salesforce/codegen-350M-mono": Checkpoint("CodeGenForCausalLM", codegen(1024, 20, 16, rotary_dim=32)),
    "Salesforce/codegen-350M-multi": Checkpoint("CodeGenForCausalLM", codegen(1024, 20, 16, rotary_dim=32)),
    "EleutherAI/gpt-neo-125m": Checkpoint("GPTNeoForCausalLM", gpt_neo(768, 12, 12)),
    "EleutherAI/gpt-neo-1.3B": Checkpoint("GPTNeoForCausalLM", gpt_neo(2048, 24, 16)),
    "EleutherAI/pythia-70m": Checkpoint("GPTNeoXForCausalLM", pythia(512, 6, 8, 2048)),
    "EleutherAI/pythia-160m": Checkpoint("GPTNeoXForCausalLM", pythia(768, 12, 12, 3072)),
    "EleutherAI/pythia-410m": Checkpoint("GPTNeoXForCausalLM", pythia(1024, 24, 16, 4096)),
    "facebook/opt-125m": Checkpoint("OPTForCausalLM", opt(768, 12, 12, 3072, 768)),
    "facebook/opt-350m": Checkpoint("OPTForCausalLM", opt(1024, 24, 16, 4096, 512, do_layer_norm_before=False)),
    "facebook/opt-1.3b": Checkpoint("OPTForCausalLM", opt(2048, 24, 32, 8192, 2048)),
    "bigscience/bloom-560m": Checkpoint(
        "BloomForCausalLM", dict(vocab_size=250880, hidden_size=1024, n_layer=24, n_head=16)
    ),
    "TinyLlama/TinyLlama-1.1B-Chat-v1.0": Checkpoint(
        "LlamaForCausalLM", llama(32000, 2048, 22, 32, 5632, 4, theta=10000, max_position_embeddings=2048)
    ),
    "HuggingFaceTB/SmolLM2-135M": Checkpoint(
        "LlamaForCausalLM",
        llama(49152, 576, 30, 9, 1536, 3, theta=100000, max_position_embeddings=8192, tie_word_embeddings=True),
    ),
    "HuggingFaceTB/SmolLM2-360M": Checkpoint(
        "LlamaForCausalLM",
        llama(49152, 960, 32, 15, 2560, 5, theta=100000, max_position_embeddings=8192, tie_word_embeddings=True),
    ),
    "Qwen/Qwen2.5-0.5B-Instruct": Checkpoint("Qwen2ForCausalLM", qwen2(896, 24, 14, 4864)),
    "Qwen/Qwen2.5-1.5B-Instruct": Checkpoint("Qwen2ForCausalLM", qwen2(1536, 28, 12, 8960)),
    "Qwen/Qwen3-0.6B": Checkpoint("Qwen3ForCausalLM", qwen3(1024, 28, 16, 3072)),
    "Qwen/Qwen3-1.7B": Checkpoint("Qwen3ForCausalLM", qwen3(2048, 28, 16, 6144)),
    "microsoft/phi-1_5": Checkpoint("PhiForCausalLM", phi(2048, 24, 32, 8192, rotary=0.5)),
    "microsoft/phi-2": Checkpoint("PhiForCausalLM", phi(2560, 32, 32, 10240, rotary=0.4)),
    # Encoder-decoders
    "google-t5/t5-small": Checkpoint("T5ForConditionalGeneration", t5(512, 2048, 6, 8, feed_forward_proj="relu")),
    "google-t5/t5-base": Checkpoint("T5ForConditionalGeneration", t5(768, 3072, 12, 12, feed_forward_proj="relu")),
    "google/flan-t5-small": Checkpoint("T5ForConditionalGeneration", flan_t5(512, 1024, 8, 6)),
    "google/flan-t5-base": Checkpoint("T5ForConditionalGeneration", flan_t5(768, 2048, 12, 12)),
    "google/flan-t5-large": Checkpoint("T5ForConditionalGeneration", flan_t5(1024, 2816, 24, 16)),
    "facebook/bart-base": Checkpoint("BartForConditionalGeneration", bart(50265, 768, 6, 6, 12, 3072)),
    "facebook/bart-large-cnn": Checkpoint("BartForConditionalGeneration", bart(50264)),
    "facebook/bart-large-mnli": Checkpoint("BartForSequenceClassification", bart(50265, num_labels=3)),
    "sshleifer/distilbart-cnn-12-6": Checkpoint("BartForConditionalGeneration", bart(50264, 1024, 12, 6)),
    "Helsinki-NLP/opus-mt-en-de": Checkpoint("MarianMTModel", marian(58101)),
    "Helsinki-NLP/opus-mt-en-fr": Checkpoint("MarianMTModel", marian(59514)),
    "Helsinki-NLP/opus-mt-zh-en": Checkpoint("MarianMTModel", marian(65001)),
    "facebook/nllb-200-distilled-600M": Checkpoint(
        "M2M100ForConditionalGeneration", bart(256206, scale_embedding=True, activation_function="relu")
    ),
    # Vision
    "google/vit-base-patch16-224": Checkpoint("ViTForImageClassification", vit(num_labels=1000)),
    "google/vit-base-patch16-224-in21k": Checkpoint("ViTModel", vit()),
    "Falconsai/nsfw_image_detection": Checkpoint("ViTForImageClassification", vit(num_labels=2)),
    "WinKawaks/vit-tiny-patch16-224": Checkpoint("ViTForImageClassification", vit(192, 12, 3, 768, num_labels=1000)),
    "facebook/dinov2-small": Checkpoint("Dinov2Model", dinov2(384, 12, 6)),
    "facebook/dinov2-base": Checkpoint("Dinov2Model", dinov2(768, 12, 12)),
    "facebook/dinov2-large": Checkpoint("Dinov2Model", dinov2(1024, 24, 16)),
    "microsoft/beit-base-patch16-224": Checkpoint(
        "BeitForImageClassification", vit(use_relative_position_bias=True, use_mean_pooling=True, num_labels=1000)
    ),
    "microsoft/swin-tiny-patch4-window7-224": Checkpoint(
        "SwinForImageClassification",
        dict(
            image_size=224, embed_dim=96, depths=[2, 2, 6, 2], num_heads=[3, 6, 12, 24], window_size=7, num_labels=1000
        ),
    ),
    "microsoft/resnet-18": Checkpoint(
        "ResNetForImageClassification", resnet([64, 128, 256, 512], [2, 2, 2, 2], "basic")
    ),
    "microsoft/resnet-50": Checkpoint(
        "ResNetForImageClassification", resnet([256, 512, 1024, 2048], [3, 4, 6, 3], "bottleneck")
    ),
    "facebook/convnext-tiny-224": Checkpoint(
        "ConvNextForImageClassification", convnext([96, 192, 384, 768], [3, 3, 9, 3])
    ),
    "google/mobilenet_v2_1.0_224": Checkpoint(
        "MobileNetV2ForImageClassification", dict(image_size=224, depth_multiplier=1.0, num_labels=1001)
    ),
    "nvidia/segformer-b0-finetuned-ade-512-512": Checkpoint(
        "SegformerForSemanticSegmentation", segformer([32, 64, 160, 256], [2, 2, 2, 2], 256)
    ),
    "hustvl/yolos-tiny": Checkpoint(
        "YolosForObjectDetection", yolos(192, 12, 3, 768, [800, 1333], use_mid_position_embeddings=False)
    ),
    # Audio
    "openai/whisper-tiny": Checkpoint("WhisperForConditionalGeneration", whisper(384, 4, 6, 1536)),
    "openai/whisper-base": Checkpoint("WhisperForConditionalGeneration", whisper(512, 6, 8, 2048)),
    "openai/whisper-small": Checkpoint("WhisperForConditionalGeneration", whisper(768, 12, 12, 3072)),
    "facebook/wav2vec2-base-960h": Checkpoint("Wav2Vec2ForCTC", speech(vocab_size=32)),
    "jonatasgrosman/wav2vec2-large-xlsr-53-english": Checkpoint("Wav2Vec2ForCTC", speech_large(vocab_size=33)),
    "facebook/hubert-base-ls960": Checkpoint("HubertModel", speech()),
    "facebook/hubert-large-ls960-ft": Checkpoint("HubertForCTC", speech_large(vocab_size=32)),
    "microsoft/wavlm-base-plus": Checkpoint("WavLMModel", speech()),
    "MIT/ast-finetuned-audioset-10-10-0.4593": Checkpoint(
        "ASTForAudioClassification", dict(**LAYERS, max_length=1024, num_mel_bins=128, num_labels=527)
    ),
    # Images and text
    "openai/clip-vit-base-patch32": Checkpoint(
        "CLIPModel", clip(CLIP_TEXT, dict(**LAYERS, image_size=224, patch_size=32), 512)
    ),
    "openai/clip-vit-base-patch16": Checkpoint(
        "CLIPModel", clip(CLIP_TEXT, dict(**LAYERS, image_size=224, patch_size=16), 512)
    ),
    "openai/clip-vit-large-patch14": Checkpoint(
        "CLIPModel", clip(CLIP_TEXT_LARGE, dict(**LARGE_LAYERS, image_size=224, patch_size=14), 768)
    ),
    "google/siglip-base-patch16-224": Checkpoint(
        "SiglipModel", dict(text_config=SIGLIP_TEXT, vision_config=dict(**LAYERS, image_size=224, patch_size=16))
    ),
    "Salesforce/blip-image-captioning-base": Checkpoint(
        "BlipForConditionalGeneration",
        dict(text_config=BLIP_TEXT, vision_config=dict(**LAYERS, image_size=384, patch_size=16), projection_dim=512),
    ),
}
